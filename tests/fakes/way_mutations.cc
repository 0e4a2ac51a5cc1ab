#include <algorithm>

#include "fakes/mutation_tools.h"
#include "plan/staging.h"

namespace slabload::testing {
namespace {

using Kind = FillItem::Kind;

// A block of a shard of several, on one rank: `change(shard, block)`.
template <typename Change>
Mutation of_block(Change change) {
  return [change](Subject& s, Random& random) {
    std::vector<ShardPlace*> all;
    for (LoadPlan& plan : s.plans) {
      for (ShardPlace& shard : plan.shards) {
        if (shard.blocks.size() > 1) all.push_back(&shard);
      }
    }
    if (all.empty()) return false;
    ShardPlace& shard = *all[random.below(all.size())];
    return change(shard, random.below(shard.blocks.size()), random);
  };
}

// A group of more than one rank, on one rank.
template <typename Change>
Mutation of_group(Change change) {
  return [change](Subject& s, Random& random) {
    LoadPlan& plan = any_plan(s, random);
    if (plan.groups.empty()) return false;
    RankGroup& group = plan.groups[random.below(plan.groups.size())];
    if (group.size() < 2) return false;
    return change(group, group.axes[random.below(group.axes.size())]);
  };
}

// The other end of a message.
FillItem* other_end(Subject& s, const LoadPlan& plan, std::size_t r, const std::vector<FillItem>& list, std::size_t at) {
  const FillItem& one = list[at];
  const Kind kind = one.kind == Kind::send ? Kind::receive : Kind::send;
  std::size_t number = 0;
  for (std::size_t i = 0; i < at; ++i) number += list[i].kind == one.kind && list[i].peer == one.peer;
  for (FillItem& fill : s.plans[one.peer].rounds[r].fills) {
    if (fill.kind == kind && fill.peer == plan.rank && number-- == 0) return &fill;
  }
  return nullptr;
}

// A message changed at both ends: `change(item, plan)`.
template <typename Change>
Mutation at_both_ends(Change change) {
  return [change](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::fills, of_kind(Kind::send));
    if (!found) return false;
    const std::size_t r = round_of(found);
    const std::uint32_t peer = found.item().peer;
    FillItem* end = other_end(s, *found.plan, r, *found.list, found.at);
    std::vector<FillItem>& there = s.plans[peer].rounds[r].fills;
    const auto number = static_cast<std::size_t>(end - there.data());
    return change(*found.list, found.at, *found.plan) && change(there, number, s.plans[peer]);
  };
}

// A message to another owner of the same cell.
bool to_another_owner(Subject& s, Random& random) {
  auto found = pick(s, random, &Round::fills, of_kind(Kind::send));
  if (!found) return false;
  FillItem& send = found.item();
  const LoadPlan& there = s.plans[send.peer];
  const std::int32_t group = there.replicas[send.tensor];
  if (group < 0) return false;
  const RankGroup& owners = there.groups[static_cast<std::size_t>(group)];
  const std::uint64_t other = owners[random.below(owners.size())];
  if (other == send.peer || other == found.plan->rank) return false;
  const std::size_t r = round_of(found);
  FillItem* end = other_end(s, *found.plan, r, *found.list, found.at);
  std::vector<FillItem>& list = s.plans[send.peer].rounds[r].fills;
  s.plans[other].rounds[r].fills.push_back(*end);
  erase(list, static_cast<std::size_t>(end - list.data()));
  // As the last one of its pair.
  FillItem moved = send;
  moved.peer = static_cast<std::uint32_t>(other);
  erase(*found.list, found.at);
  found.list->push_back(std::move(moved));
  return true;
}

// Puts a read of one rank on another as well, into staging of its own that the budget has room for.
bool read_by_another_too(Subject& s, Random& random) {
  auto found = pick(s, random, &Round::reads);
  if (!planned(s) || !found) return false;
  ReadItem item = found.item();
  if (s.c.index.tensors[item.tensor].storage == StorageKind::fill) return false;
  LoadPlan& other = any_plan(s, random);
  const std::size_t r = round_of(found);
  Round& round = other.rounds[r];
  item.to = {Space::stage, round.stage_bytes};
  item.joined = false;
  round.stage_bytes += item.box.elements() * element_size(other, item.tensor);
  other.stage_bytes = std::max(other.stage_bytes, round.stage_bytes);
  const auto split = split_staging(s.c.params, converts_any(s.c.index, s.c.params.cast));
  if (!split || other.stage_bytes > split->round_bytes) return false;
  auto at = std::find_if(round.reads.begin(), round.reads.end(), [&](const ReadItem& i) { return i.step > item.step; });
  if (at != round.reads.end()) at->joined = false;
  round.reads.insert(at, item);
  for (LoadPlan& plan : s.plans) ++plan.rounds[r].steps[item.step].calls;
  return true;
}

// An element of a read that another rank, or another read, has already.
bool read_one_more(Subject& s, Random& random) {
  auto found = pick(s, random, &Round::reads);
  if (!planned(s) || !found || found.item().box.ndim() == 0) return false;
  Box& box = found.item().box;
  const std::size_t d = random.below(box.ndim());
  if (box.start[d] == 0) return false;
  --box.start[d];
  ++box.extent[d];
  return true;
}

// Rounds of one rank, or what a round does, in another order.
bool swap_rounds(Subject& s, Random& random) {
  LoadPlan& plan = any_plan(s, random);
  if (plan.rounds.size() < 2) return false;
  const std::size_t a = random.below(plan.rounds.size());
  const std::size_t b = random.below(plan.rounds.size());
  if (a == b || plan.rounds[a].fills.empty()) return false;
  std::swap(plan.rounds[a], plan.rounds[b]);
  return true;
}
bool move_round_to_the_end(Subject& s, Random& random) {
  LoadPlan& plan = any_plan(s, random);
  if (plan.rounds.size() < 2) return false;
  const auto r = static_cast<std::ptrdiff_t>(random.below(plan.rounds.size() - 1));
  if (plan.rounds[static_cast<std::size_t>(r)].fills.empty()) return false;
  std::rotate(plan.rounds.begin() + r, plan.rounds.begin() + r + 1, plan.rounds.end());
  return true;
}

std::uint64_t room_of_a_round(const Subject& s) {
  return split_staging(s.c.params, converts_any(s.c.index, s.c.params.cast))->round_bytes;
}

}  // namespace

const std::vector<NamedMutation>& way_mutations() {
  static const std::vector<NamedMutation> all{
    // Requests of several reads.
    {"JoinedToNothing", Property::reads, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads, [](const ReadItem& i) { return !i.joined; });
       if (found) found.item().joined = true;
       return static_cast<bool>(found);
     }},
    {"RequestWithoutItsStart", Property::reads, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads, [](const ReadItem& i) { return i.joined; });
       if (found) erase(*found.list, found.at - 1);
       return static_cast<bool>(found);
     }},
    {"RequestThatJumpsInMemory", Property::arrivals, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads, [](const ReadItem& i) { return i.joined; });
       if (found) found.item().to.offset += some_shift(random);
       return static_cast<bool>(found);
     }},
    {"ReadByAnotherToo", Property::reads, read_by_another_too},
    {"ReadOneMore", Property::reads, read_one_more},

    // Who reads again.
    {"RereadsOnOne", Property::rounds, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       plan.rereads.resize(plan.shards.size());
       plan.rereads[random.below(plan.shards.size())].flip();
       return true;
     }},
    {"RereadsOnAll", Property::reads, [](Subject& s, Random& random) {
       const std::size_t t = random.below(s.plans[0].shards.size());
       for (LoadPlan& plan : s.plans) {
         plan.rereads.resize(plan.shards.size());
         plan.rereads[t].flip();
       }
       return true;
     }},
    {"RereadMissing", Property::reads, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads, [&](const ReadItem& i) { return !s.plans[0].rereads.empty() && s.plans[0].rereads[i.tensor]; });
       if (!found) return false;
       erase(*found.list, found.at);
       return true;
     }},

    // Shards of several blocks.
    {"BlockDropped", Property::shards, of_block([](ShardPlace& shard, std::size_t at, Random&) { erase(shard.blocks, at); return true; })},
    {"BlockDoubled", Property::shards, of_block([](ShardPlace& shard, std::size_t at, Random&) { shard.blocks.push_back(shard.blocks[at]); return true; })},
    {"BlockChanged", Property::shards, of_block([](ShardPlace& shard, std::size_t at, Random& random) { shift_box(shard.blocks[at].box, random); return true; })},
    {"BlockFrameShifted", Property::shards, of_block([](ShardPlace& shard, std::size_t at, Random& random) { shift_box(shard.blocks[at].frame, random); return true; })},
    {"BlockMoved", Property::shards, of_block([](ShardPlace& shard, std::size_t at, Random& random) { shard.blocks[at].offset += some_shift(random); return true; })},
    {"BlocksSwapped", Property::shards, of_block([](ShardPlace& shard, std::size_t at, Random&) { std::swap(shard.blocks[at], shard.blocks[(at + 1) % shard.blocks.size()]); return true; })},
    {"BlocksForgotten", Property::shards, of_block([](ShardPlace& shard, std::size_t, Random&) { shard.blocks.clear(); return true; })},
    {"ShardFlatOrNot", Property::shards, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       ShardPlace& shard = plan.shards[random.below(plan.shards.size())];
       shard.flat = !shard.flat;
       return true;
     }},
    {"ShardOfOtherBytes", Property::shards, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       plan.shards[random.below(plan.shards.size())].bytes += some_shift(random);
       return true;
     }},

    {"GroupOfOtherStride", Property::transfers, of_group([](RankGroup&, RankGroup::Axis& axis) { ++axis.stride; return axis.count > 1; })},
    {"GroupBeginsLater", Property::transfers, of_group([](RankGroup& group, RankGroup::Axis&) { ++group.first; return true; })},
    {"GroupOfMore", Property::transfers, of_group([](RankGroup&, RankGroup::Axis& axis) { ++axis.count; return true; })},
    {"GroupOfOtherStrideOnAll", Property::transfers, [](Subject& s, Random& random) {
       if (s.plans[0].groups.empty()) return false;
       const std::size_t g = random.below(s.plans[0].groups.size());
       if (s.plans[0].groups[g].size() < 2) return false;
       for (LoadPlan& plan : s.plans) plan.groups[g].axes.back().stride *= 2;
       return true;
     }},

    // Messages, at both ends.
    {"MessageMissingAtBothEnds", Property::arrivals, at_both_ends([](std::vector<FillItem>& list, std::size_t at, LoadPlan&) { erase(list, at); return true; })},
    {"MessageDoubledAtBothEnds", Property::arrivals, at_both_ends([](std::vector<FillItem>& list, std::size_t at, LoadPlan&) {
       list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), FillItem(list[at]));
       return true;
     })},
    {"MessageOfAnotherBoxAtBothEnds", Property::arrivals, at_both_ends([](std::vector<FillItem>& list, std::size_t at, LoadPlan&) {
       if (list[at].box.ndim() == 0) return false;
       list[at].box.start[0] += 1;
       return true;
     })},
    {"MessageShorterAtBothEnds", Property::arrivals, at_both_ends([](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) {
       Box& box = list[at].box;
       if (box.ndim() == 0 || box.extent[0] < 2) return false;
       list[at].bytes -= box.elements() / box.extent[0] * element_size(plan, list[at].tensor);
       --box.extent[0];
       return true;
     })},
    {"MessageOfOtherBytesAtBothEnds", Property::transfers, at_both_ends([](std::vector<FillItem>& list, std::size_t at, LoadPlan&) { ++list[at].bytes; return true; })},
    {"MessageToAnotherOwner", Property::arrivals, to_another_owner},
    {"MessageDelayedByTheSender", Property::transfers, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, of_kind(Kind::send));
       if (!found || round_of(found) + 1 == found.plan->rounds.size()) return false;
       found.plan->rounds[round_of(found) + 1].fills.push_back(found.item());
       erase(*found.list, found.at);
       return true;
     }},
    {"MessagesOfAPairTurnedRound", Property::transfers, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, of_kind(Kind::receive));
       if (!found) return false;
       std::vector<std::size_t> of_pair;
       for (std::size_t i = 0; i < found.list->size(); ++i) {
         const FillItem& fill = (*found.list)[i];
         if (fill.kind == Kind::receive && fill.peer == found.item().peer) of_pair.push_back(i);
       }
       for (std::size_t i = 0; i < of_pair.size() / 2; ++i) std::swap((*found.list)[of_pair[i]], (*found.list)[of_pair[of_pair.size() - 1 - i]]);
       return of_pair.size() > 1;
     }},
    {"MessageSplitByTheSender", Property::transfers, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, of_kind(Kind::send));
       if (!found || found.item().box.ndim() == 0 || found.item().box.extent[0] < 2) return false;
       FillItem second = found.item();
       FillItem& first = found.item();
       const std::uint64_t row = first.bytes / first.box.extent[0];
       const std::uint64_t rows = first.box.extent[0] / 2;
       first.box.extent[0] = rows;
       first.bytes = rows * row;
       second.box.start[0] += rows;
       second.box.extent[0] -= rows;
       second.bytes -= rows * row;
       second.at.offset += rows * row;
       found.list->insert(found.list->begin() + static_cast<std::ptrdiff_t>(found.at) + 1, second);
       return true;
     }},

    // The budget, and the rounds.
    {"RoundBeyondTheBudget", Property::budget, [](Subject& s, Random& random) {
       if (!planned(s)) return false;
       LoadPlan& plan = any_plan(s, random);
       if (plan.rounds.empty()) return false;
       plan.stage_bytes = plan.rounds[random.below(plan.rounds.size())].stage_bytes = room_of_a_round(s) + 1 + random.below(9);
       return true;
     }},
    {"AllBeyondTheBudget", Property::budget, [](Subject& s, Random&) {
       if (!planned(s)) return false;
       for (LoadPlan& plan : s.plans) plan.stage_bytes = room_of_a_round(s) + 1;
       return true;
     }},
    {"MoreRoundsAtOnceOnAll", Property::budget, [](Subject& s, Random& random) {
       const std::uint64_t more = 1 + random.below(5);
       for (LoadPlan& plan : s.plans) plan.rounds_at_once += more;
       return true;
     }},
    {"KeepsWhatItMustNotOnAll", Property::budget, [](Subject& s, Random& random) {
       if (!planned(s)) return false;
       const std::uint64_t kept = 1 + random.below(5000);
       for (LoadPlan& plan : s.plans) plan.keep_bytes = kept;
       return true;
     }},
    {"RoundsSwappedOnOne", Property::rounds, swap_rounds},
    {"RoundMovedToTheEnd", Property::rounds, move_round_to_the_end},
    {"RoundMissingOnAll", Property::arrivals, [](Subject& s, Random& random) {
       if (s.plans[0].rounds.empty()) return false;
       const std::size_t r = random.below(s.plans[0].rounds.size());
       bool any = false;
       for (LoadPlan& plan : s.plans) {
         any |= !plan.rounds[r].reads.empty();
         erase(plan.rounds, r);
       }
       return any;
     }},
    {"RoundDoubledOnAll", Property::arrivals, [](Subject& s, Random& random) {
       if (s.plans[0].rounds.empty()) return false;
       const std::size_t r = random.below(s.plans[0].rounds.size());
       bool any = false;
       for (LoadPlan& plan : s.plans) {
         any |= !plan.rounds[r].reads.empty();
         plan.rounds.push_back(Round(plan.rounds[r]));
       }
       return any;
     }},
    {"EmptyRoundInFrontOnOne", Property::rounds, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       plan.rounds.insert(plan.rounds.begin(), Round{});
       return true;
     }}};
  return all;
}

}  // namespace slabload::testing
