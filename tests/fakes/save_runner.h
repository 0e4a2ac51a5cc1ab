// Runs the save plans of all ranks in one process, every byte accounted for: an interpreter of its own, apart from the
// executor.
#pragma once

#include <string>
#include <vector>

#include "plan/save_plan.h"

namespace slabload::testing {

// `shards[r]` is rank r's shard space. Returns the bytes of every tensor as written. Throws std::runtime_error at the first
// thing that is wrong: an element written twice or not at all, memory used before it was written, a place outside its space,
// a message without its counterpart, rounds or steps that differ between ranks, an item of 1 GiB.
std::vector<std::string> run_saves(const TensorIndex& target, const std::vector<SavePlan>& plans,
                                   const std::vector<std::string>& shards);

}  // namespace slabload::testing
