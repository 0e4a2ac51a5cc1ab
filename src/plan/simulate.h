// A plan's numbers over all ranks, without running it.
#pragma once

#include <cstdint>
#include <string>

#include "plan/planner.h"

namespace slabload {

struct RankSpread {
  std::uint64_t min = UINT64_MAX;
  std::uint64_t max = 0;
  std::uint64_t sum = 0;
  std::uint64_t max_rank = 0;
  void add(std::uint64_t value, std::uint64_t rank);
  double mean(std::uint64_t ranks) const { return static_cast<double>(sum) / static_cast<double>(ranks); }
};

// One rank's figures.
struct RankFigures {
  std::uint64_t read_bytes = 0, requests = 0, received_bytes = 0, sent_bytes = 0, shard_bytes = 0,
                staging_bytes = 0;
  std::uint64_t peak_bytes() const { return shard_bytes + staging_bytes; }
};

struct PlanSummary {
  std::uint64_t ranks = 0, tensors = 0, rounds = 0;
  std::uint64_t selected_bytes = 0;  // stored size of what is to be read, each tensor once
  RankSpread read_bytes, requests, received_bytes, sent_bytes, shard_bytes;
  RankSpread peak_bytes;     // shards + staging + what a baseline keeps
  RankSpread staging_bytes;  // all slots, with what a baseline keeps
  bool validated = false;
  std::string why;

  double amplification() const;        // read_bytes over all ranks / selected_bytes; 1 if nothing is selected
  double share_max_over_mean() const;  // of read bytes; 1 if nothing is read
};

// Bandwidths for the time bound, bytes per second; 0 is unknown.
struct Machine {
  double filesystem = 0;       // over all ranks
  double filesystem_rank = 0;  // of one rank
  double fabric_rank = 0;      // into one rank
};

// time >= max(all bytes read / file system, largest rank's read / its link) + largest rank's fill / its
// fabric link.
double time_bound(const PlanSummary& summary, const Machine& machine);

// Plans for every rank, validates all plans (see validate.h) and sums up; `per_rank`, if given, gets every
// rank's figures. Throws what the planner and the validator throw.
PlanSummary simulate(const TensorIndex& index, const Layout& layout, const PlanParams& params,
                     std::vector<RankFigures>* per_rank = nullptr);

}  // namespace slabload
