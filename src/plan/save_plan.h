// A save is a load turned round: what a rank would read it writes, what it would receive it sends.
#pragma once

#include "plan/planner.h"

namespace slabload {

// One rank's part of a save. `load` holds the rounds to be run: Round::packs copy from the shards into the staging,
// Round::fills move pieces to the ranks that write them, Round::unpacks put these in order, and then Round::reads are
// written: each takes its box from the place `to`. Rounds and steps are the same on every rank.
struct SavePlan {
  LoadPlan load;
};

// Plans the writing of shards that lie by `layout` to the file that `target` describes: each element once, by one rank;
// replicas share what they have. Same promises as Planner::make; Status::usage also if the strategy is a baseline.
class SavePlanner {
 public:
  // Keeps references to index and layout. `params.cast` must be empty: shards are written as they are.
  SavePlanner(const TensorIndex& target, const Layout& layout, PlanParams params);

  SavePlan plan(std::uint64_t rank) const;
  std::string why() const { return planner_->why(); }

  // What was planned before it was turned round, with the parameters to validate it by.
  LoadPlan unturned(std::uint64_t rank) const { return planner_->plan(rank); }
  const PlanParams& params() const { return params_; }

 private:
  PlanParams params_;
  std::unique_ptr<Planner> planner_;
};

// A plan whose items run backwards. Broadcasts and all-gathers have no reverse: Status::internal.
SavePlan turned_round(LoadPlan plan);

}  // namespace slabload
