// What `plan` prints.
#pragma once

#include <string>
#include <vector>

#include "layout/layout.h"
#include "plan/simulate.h"

namespace slabload {

struct PlanReport {
  std::string version, checkpoint, mesh, layout, strategy;
  std::vector<std::string> notes;
  std::uint64_t staging_budget = 0;
  double bound_s = 0;  // 0: no bandwidth was given
  bool keep_ranks = false;
  PlanSummary summary;
  std::vector<RankFigures> per_rank;  // with --full and --json
};

std::string to_text(const PlanReport& report);
std::string to_json(const PlanReport& report);

// The rule that applies to a tensor and every rank's box. Ranks with the same box share a line.
std::string explain_text(const TensorMeta& tensor, const Layout& layout);

}  // namespace slabload
