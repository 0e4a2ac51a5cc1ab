// The planner of the strategies slab, linear and auto: each tensor comes one way (see plan_tensor.h), and the ways run
// side by side in the same rounds.
#pragma once

#include <array>
#include <memory>

#include "plan/way_choice.h"

namespace slabload {

class MixedPlanner final : public Planner {
 public:
  MixedPlanner(const TensorIndex& index, const Layout& layout, const PlanParams& params);
  LoadPlan plan(std::uint64_t rank) const override;
  std::string why() const override;

 private:
  // A part, and the round that its first one is.
  struct Placed {
    std::unique_ptr<PlanPart> part;
    std::size_t first_round = 0;
    bool has(std::size_t round) const { return round >= first_round && round - first_round < part->rounds(); }
  };
  void choose_ways(std::uint64_t round_bytes);
  StagingSplit fitting_split();
  std::uint64_t worst_need(std::uint64_t capacity) const;
  void outline();

  PlanParams params_;
  std::vector<PlanTensor> tensors_;
  StagingSplit split_;
  PlanContext context_;
  std::vector<TensorLayout> resolved_;
  std::optional<ShardTable> table_;
  std::vector<std::uint32_t> masks_;  // per tensor: its replicated axes
  std::vector<DType> dtypes_;
  std::vector<bool> rereads_;
  std::vector<Placed> parts_;
  // Per round: what all ranks list, where each part's steps begin, and if anyone has transfers.
  struct Outline {
    std::vector<ReadStep> steps;
    std::vector<std::uint32_t> first_step;  // of each part
    bool communicates = false;
  };
  std::vector<Outline> rounds_;
};

}  // namespace slabload
