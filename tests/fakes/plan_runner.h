// Runs the plans of all ranks in one process, step by step and with every byte accounted for: an interpreter
// of its own, so that neither the planner nor the executor can be wrong in a way the other makes up for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/load_plan.h"

namespace slabload::testing {

// The bytes that stand for element `i` of tensor `t` (its final type has `size` bytes): a pattern of its own.
std::uint64_t pattern_bits(std::uint64_t t, std::uint64_t i);

struct Run {
  std::vector<std::string> shards;  // per rank: the shard space
  std::vector<std::vector<std::uint32_t>>
      reads;                              // per tensor and element: how often it was read over all ranks
  std::vector<std::uint64_t> read_bytes;  // per rank, of the stored type
};

// Plays the rounds as an executor may: the reads of round r+1 come before the transfers of round r end where
// there are two slots. Throws std::runtime_error at the first thing that is wrong: a place outside its space,
// a byte of a shard or of a round's staging written twice, memory used before it was written or changed while
// it is sent, a message without its counterpart, members of a group that disagree, rounds that differ between
// ranks, an item of 1 GiB.
Run run_plans(const TensorIndex& index, const std::vector<LoadPlan>& plans);

}  // namespace slabload::testing
