// Whether replicas are equal, by one sum over all ranks.
#pragma once

#include <cstdint>

#include "plan/load_plan.h"

namespace slabload {

// splitmix64's finaliser (Steele, Lea, Flood 2014).
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

struct Replica {
  std::uint64_t count = 1;  // replicas of this rank's shard
  bool first = true;        // of them
  std::uint64_t factor = 1;
};

inline Replica replica_of(const LoadPlan& plan, std::size_t tensor) {
  const std::int32_t number = plan.replicas[tensor];
  if (number < 0) return {};
  const RankGroup& group = plan.groups[static_cast<std::size_t>(number)];
  return {group.size(), group.first == plan.rank, mixed(group.first + 0x9e3779b97f4a7c15ULL) | 1};
}

// With n replicas, own - n * (the first's), times a random odd factor for each set of them: it sums to 0 over all ranks if
// the replicas of every shard have the same `own`, and else by chance once in 2^64.
inline std::uint64_t replica_term(const Replica& replica, std::uint64_t own) {
  return replica.factor * mixed(own) * (replica.first ? 1 - replica.count : 1);
}

}  // namespace slabload
