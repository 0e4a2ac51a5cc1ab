// Proof that all ranks' plans together do what they should, without running them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "layout/block_index.h"
#include "plan/coverage.h"
#include "plan/planner.h"

namespace slabload {

// Takes the plans of all ranks, one by one in any order, and then gives a verdict. Checks: every element of
// every shard arrives exactly once at its place; what is sent, gathered or copied is there by then; every
// element of the selection is read as often as the strategy claims (once; by every-rank once per rank); sends
// match receives in order, size and content; the members of a group agree on every all-gather and broadcast;
// no place is used twice in a round; staging and the scratch of conversions stay within the budget; no item
// reaches 1 GiB; all ranks have the same rounds and steps; replicas are named right. Of plans for saving: every element
// arrives at its place in one shard, not in all that have it. Memory: tensors + groups, not tensors x ranks.
class Validator {
 public:
  Validator(const TensorIndex& index, const Layout& layout, const PlanParams& params);

  // Throws Status::internal naming rank, round and tensor at the first thing that is wrong.
  void add(const LoadPlan& plan);
  // After all ranks. Throws likewise.
  void finish() const;

 private:
  class RoundCheck;
  // A whole tensor in the memory of a baseline, as far as it is there.
  struct Whole {
    Space space;
    std::uint64_t base;  // where its first element lies
    Coverage held;
  };
  void check_shards(const LoadPlan& plan);
  void check_budget(const LoadPlan& plan) const;
  void check_outline(const LoadPlan& plan);
  void check_rereads(const LoadPlan& plan) const;
  [[noreturn]] void wrong(const LoadPlan& plan, std::size_t round, std::uint32_t tensor,
                          const std::string& what) const;

  const TensorIndex& index_;
  const Layout& layout_;
  PlanParams params_;
  std::vector<TensorLayout> resolved_;
  std::optional<ShardTable> table_;
  std::unordered_map<std::uint32_t, BlockIndex> blocks_;  // of the rank being added, as far as it was asked for
  std::vector<Coverage> wanted_;  // per kind of tensor, of the rank being added: its shard
  std::vector<std::uint32_t> mask_of_;  // per tensor: its replicated mesh axes
  std::set<std::uint32_t> masks_;
  std::uint64_t plans_ = 0;
  std::vector<bool> added_;         // per rank
  std::vector<Coverage> reads_;     // per tensor, over all ranks
  std::vector<Coverage> given_;     // saving: per tensor, what arrives at all ranks together
  std::vector<Coverage> arrivals_;  // per tensor, of the rank being added
  // Per tensor, of the round being checked: what is read to its place, and what is passed on from there.
  std::vector<Coverage> placed_, passed_;
  std::vector<bool> passes_on_;
  std::vector<std::uint32_t> touched_;  // the tensors that have any of these
  // Per tensor with replicas: what came to its place in a round otherwise than by a collective. Rounds take turns; there is
  // one more than are under way at once, after which a head may pass on what came.
  struct Came {
    std::vector<Coverage> of_tensor;
    std::vector<std::uint32_t> touched;
  };
  std::vector<Came> came_;
  std::unordered_map<std::uint32_t, Whole>
      kept_;                // of the rank being added: what a baseline keeps beyond a round
  std::uint64_t sent_ = 0;  // hash sums over all messages
  std::uint64_t received_ = 0;
  struct GroupRecord {
    std::uint64_t chain = 0;  // hash of its transfers in order, as the first member has them
    std::uint64_t seen = 0;   // members added
    std::uint64_t members = 0;
  };
  std::map<std::uint64_t, GroupRecord> groups_;  // by a hash of the group's number and members
  std::vector<std::uint64_t> chains_;            // of the rank being added, per group
  struct Membership {
    std::optional<std::uint64_t> self;  // its number in the group
    std::uint64_t size;
  };
  std::vector<Membership> memberships_;  // of the rank being added, per group
  std::uint64_t rounds_ = 0;
  std::vector<bool> rereads_;
  std::uint64_t outline_ = 0;  // hash of the rounds' steps
};

}  // namespace slabload
