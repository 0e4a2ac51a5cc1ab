#include "plan/save_plan.h"

#include <utility>

#include "base/error.h"

namespace slabload {
namespace {

PlanParams for_saving(PlanParams params) {
  if (is_baseline(params.strategy))
    fail(Status::usage, "--strategy: a save is by slab, linear or auto, not {}", params.strategy);
  if (params.cast) fail(Status::internal, "a save converts nothing");
  params.saving = true;
  return params;
}

std::vector<CopyItem> backwards(std::vector<CopyItem> copies) {
  for (CopyItem& copy : copies) {
    std::swap(copy.from, copy.to);
    std::swap(copy.from_box, copy.to_box);
  }
  return copies;
}

}  // namespace

SavePlanner::SavePlanner(const TensorIndex& target, const Layout& layout, PlanParams params)
    : params_(for_saving(std::move(params))), planner_(Planner::make(target, layout, params_)) {}

SavePlan SavePlanner::plan(std::uint64_t rank) const {
  return turned_round(planner_->plan(rank));
}

SavePlan turned_round(LoadPlan plan) {
  for (Round& round : plan.rounds) {
    std::vector<CopyItem> packs = backwards(std::move(round.unpacks));
    round.unpacks = backwards(std::move(round.packs));
    round.packs = std::move(packs);
    for (FillItem& fill : round.fills) {
      if (fill.kind != FillItem::Kind::send && fill.kind != FillItem::Kind::receive)
        fail(Status::internal, "a save moves bytes between two ranks only");
      fill.kind = fill.kind == FillItem::Kind::send ? FillItem::Kind::receive : FillItem::Kind::send;
    }
  }
  return {std::move(plan)};
}

}  // namespace slabload
