// What one rank does for one tensor in a plan.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/load_plan.h"

namespace slabload {

struct TensorMoves {
  struct Traffic {
    std::uint64_t messages = 0, bytes = 0;
  };
  using ByRank = std::map<std::uint64_t, Traffic>;

  std::vector<Box> reads;  // in the order of the rounds
  std::uint64_t read_bytes = 0,
                requests = 0;        // in the final dtype; no request where a neighbour's covers the read
  std::uint64_t gathered_bytes = 0;  // by all-gather in `gather_group`
  RankGroup gather_group;
  std::uint64_t broadcast_bytes = 0;  // that this rank gives to the others of `broadcast_group`
  RankGroup broadcast_group;
  ByRank broadcast_from;          // by root, without this rank
  ByRank received_from, sent_to;  // messages

  // `number` is the tensor's in the index.
  static TensorMoves of(const LoadPlan& plan, std::uint32_t number);
};

}  // namespace slabload
