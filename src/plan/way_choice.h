// Which way each tensor comes, by rule or by what it is estimated to cost.
#pragma once

#include <string>
#include <vector>

#include "plan/plan_part.h"

namespace slabload {

// Seconds of one rank, with all ranks at work alike.
struct Estimate {
  double read_s = 0, fill_s = 0, copy_s = 0;
  double total() const { return read_s + fill_s + copy_s; }
  void add(const Estimate& other) {
    read_s += other.read_s;
    fill_s += other.fill_s;
    copy_s += other.copy_s;
  }
};

class WayChoice {
 public:
  // Keeps references.
  WayChoice(const TensorIndex& index, const PlanParams& params, std::uint64_t round_bytes, std::uint64_t ranks)
      : index_(index), params_(params), round_bytes_(round_bytes), ranks_(ranks) {}

  // True if the tensor can come this way, and it is worth its requests or a matter of costs whether it is.
  bool may(std::uint32_t number, const PlanTensor& tensor, Way way) const;

  // What each of the strategies slab, linear and auto takes for a tensor.
  Way choose(const std::string& strategy, std::uint32_t number, const PlanTensor& tensor) const;

  // What a tensor costs on its way. The formulas are in src/plan/README.md.
  Estimate estimate(const PlanTensor& tensor, Way way) const;

 private:
  // True if what is read where it belongs, of a cell in `parts`, comes in requests that --min-read allows.
  bool large(const PlanTensor& tensor, std::uint64_t parts) const;
  Way by_size(std::uint32_t number, const PlanTensor& tensor) const;
  Way cheapest(std::uint32_t number, const PlanTensor& tensor) const;

  const TensorIndex& index_;
  const PlanParams& params_;
  std::uint64_t round_bytes_;
  std::uint64_t ranks_;
};

// A strategy, and what all tensors together are estimated to take by it.
struct StrategyEstimate {
  std::string strategy;
  Estimate estimate;
  bool baseline = false;
};
// Of slab, linear, auto and the baselines, in this order.
std::vector<StrategyEstimate> estimate_strategies(const TensorIndex& index, const Layout& layout,
                                                  const PlanParams& params);

}  // namespace slabload
