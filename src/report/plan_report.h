// What `plan` prints.
#pragma once

#include <string>
#include <vector>

#include "layout/layout.h"
#include "plan/simulate.h"
#include "plan/way_choice.h"

namespace slabload {

struct PlanReport {
  std::string version, checkpoint, mesh, layout, strategy;
  std::vector<std::string> notes;
  std::uint64_t staging_budget = 0;
  double bound_s = 0;  // 0: no bandwidth was given
  std::string costs;   // what the estimates are made of
  std::vector<StrategyEstimate> estimates;
  std::uint64_t ranks_per_node = 1;
  bool keep_ranks = false;
  PlanSummary summary;
  std::vector<RankFigures> per_rank;  // with --full and --json
};

std::string to_text(const PlanReport& report);
std::string to_json(const PlanReport& report);

}  // namespace slabload
