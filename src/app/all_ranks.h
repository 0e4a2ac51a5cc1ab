// What the ranks of a job come to together: that they were asked for the same, and everyone's numbers.
#pragma once

#include <string>
#include <vector>

#include "app/session.h"
#include "exec/rank_stats.h"
#include "layout/layout.h"
#include "plan/planner.h"

namespace slabload {

// Everything that a plan follows from, as a text to compare.
std::string inputs_text(const TensorIndex& index, const Layout& layout, const PlanParams& params);

// All ranks plan for themselves; equal inputs are what makes their parts fit together. Throws Status::peer (agreed) if the
// text of one rank differs. Collective.
void agree_on_inputs(Control& control, const std::string& inputs);

struct JobRanks {
  std::uint64_t hosts = 0, per_node = 0;  // per_node: the most of any
  std::vector<RankStats> stats;           // of every rank, on rank 0; empty elsewhere
};
// Collective.
JobRanks gather_ranks(Session& session, const RankStats& mine);

}  // namespace slabload
