// What the phases of a load or a save took, over all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/rank_stats.h"
#include "report/json_text.h"

namespace slabload {

// Where a phase's figures are among a rank's.
struct PhaseFields {
  const char* name;
  double RankStats::*seconds;
  std::uint64_t RankStats::*bytes;  // nullptr: the phase moves no tensor bytes
};

struct PhaseSummary {
  std::string name;
  double min_s = 0, mean_s = 0, max_s = 0;
  std::uint64_t bytes = 0, bytes_min = 0, bytes_max = 0;
  bool moves = true;  // false: no bytes are to be shown
};

std::vector<PhaseSummary> summarise_phases(const std::vector<RankStats>& ranks, std::span<const PhaseFields> fields);

// A row of names, a row of units, and a row per phase.
std::string phase_table(const std::vector<PhaseSummary>& phases);
Json phase_list(const std::vector<PhaseSummary>& phases);

// A figure over all ranks.
std::uint64_t sum_of(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field);
std::uint64_t largest_of(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field);
double longest_of(const std::vector<RankStats>& ranks, double RankStats::*field);
// Largest over mean; 1 if all are 0.
double max_over_mean(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field);
// The first rank with the largest.
std::uint64_t largest_rank(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field);

// "# name                         value" on a line.
std::string figure_line(const char* name, const std::string& value);

}  // namespace slabload
