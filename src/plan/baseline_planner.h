// The ways of loading that slabload replaces, as plans for the same executor, to be measured against.
#pragma once

#include "plan/planner.h"

namespace slabload {

// rank0-broadcast: rank 0 reads one tensor whole, broadcasts it to all, each rank keeps its part; tensor by
// tensor. rank0-full: rank 0 first reads the whole model and keeps it while it broadcasts tensor by tensor.
// every-rank: every rank reads every tensor whole and keeps its part.
class BaselinePlanner final : public Planner {
 public:
  BaselinePlanner(const TensorIndex& index, const Layout& layout, const PlanParams& params);
  LoadPlan plan(std::uint64_t rank) const override;
  std::string why() const override;

 private:
  const TensorIndex& index_;
  const Layout& layout_;
  PlanParams params_;
  std::vector<TensorLayout> resolved_;
  std::vector<std::uint32_t> masks_;  // per tensor: its replicated axes
  std::optional<ShardTable> table_;
  std::vector<DType> dtypes_;
};

}  // namespace slabload
