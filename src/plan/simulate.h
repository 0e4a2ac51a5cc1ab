// A plan's numbers over all ranks, without running it.
#pragma once

#include <cstdint>
#include <functional>
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
                staging_bytes = 0, from_nodes_bytes = 0;  // the last: counted once per node and group
  std::uint64_t leaving_bytes = 0;  // sent_bytes, but for broadcasts that are passed on along a chain: those once
  std::uint64_t peak_bytes() const { return shard_bytes + staging_bytes; }
};

// What a plan has its rank do; the staging is the plan's own, without slots for pinned memory.
RankFigures rank_figures(const TensorIndex& index, const PlanParams& params, const LoadPlan& plan);

struct PlanSummary {
  std::uint64_t ranks = 0, tensors = 0, rounds = 0;
  std::uint64_t rounds_at_once = 1;  // under way; with 1 nothing is read while transfers are
  std::uint64_t selected_bytes = 0;  // stored size of what is to be read, each tensor once
  RankSpread read_bytes, requests, received_bytes, sent_bytes, leaving_bytes, shard_bytes;
  RankSpread peak_bytes;     // shards + staging + what a baseline keeps
  RankSpread staging_bytes;  // all slots, with what a baseline keeps
  std::uint64_t nodes = 0;
  RankSpread node_read_bytes, node_fill_bytes;  // per node: read by its ranks; received from other nodes
  bool validated = false;
  std::string why;

  double amplification() const;        // read_bytes over all ranks / selected_bytes; 1 if nothing is selected
  double share_max_over_mean() const;  // of read bytes; 1 if nothing is read
};

// read = max(all bytes read / file system, largest rank's read / its link), fill = the most that a rank receives, or that leaves
// it, / its fabric link; of the rates that are given. With rounds under way at once the shorter one of the two is hidden behind
// the longer one but for a round: max(read, fill) + min(read, fill) / rounds; else read + fill.
double time_bound(const PlanSummary& summary, const Costs& costs);

// Plans for every rank, validates all plans (see validate.h) and sums up; `per_rank`, if given, gets every
// rank's figures. Throws what the planner and the validator throw.
// `watch`, if given, sees each rank's plan, one after the other.
struct SimulateOptions {
  bool validate = true;
  std::vector<RankFigures>* per_rank = nullptr;
  std::function<void(const LoadPlan&)> watch;
};
PlanSummary simulate(const TensorIndex& index, const Layout& layout, const PlanParams& params,
                     const SimulateOptions& options = {});

}  // namespace slabload
