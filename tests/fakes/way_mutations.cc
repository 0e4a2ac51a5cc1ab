#include <algorithm>

#include "fakes/mutation_tools.h"
#include "plan/planner.h"
#include "plan/staging.h"

namespace slabload::testing {
namespace {

using Kind = FillItem::Kind;

bool planned(const Subject& s) { return !is_baseline(s.c.params.strategy); }

std::uint64_t element_size(const LoadPlan& plan, std::uint32_t tensor) {
  return dtype_size(plan.dtypes[tensor]);
}

template <typename Found>
std::size_t round_of(const Found& found) {
  return static_cast<std::size_t>(found.round - found.plan->rounds.data());
}

// A broadcast of a shard's stretch among its owners, or of staging among all ranks; an all-gather of a shard.
bool is_relay(const FillItem& f) { return f.kind == Kind::broadcast && f.at.space == Space::shard; }
bool is_spread(const FillItem& f) { return f.kind == Kind::broadcast && f.at.space == Space::stage; }
bool is_gather(const FillItem& f) { return f.kind == Kind::all_gather; }
using Wanted = bool (*)(const FillItem&);

// The same transfer on the ranks of other groups too: of spread staging it is one of all ranks, of a shard one of each
// cell's owners.
bool same_transfer(const FillItem& a, const FillItem& b) {
  return a.kind == b.kind && a.tensor == b.tensor && a.range.begin == b.range.begin && a.at.space == b.at.space &&
         (a.at.space != Space::stage || a.at.offset == b.at.offset);
}

// Changes a transfer on every rank that takes part: `change(list, position, plan)`.
template <typename Change>
Mutation on_all(Wanted wanted, Change change) {
  return [wanted, change](Subject& s, Random& random) {
    if (!planned(s)) return false;
    auto found = pick(s, random, &Round::fills, wanted);
    if (!found) return false;
    const FillItem model = found.item();
    const std::size_t r = round_of(found);
    bool any = false;
    for (LoadPlan& plan : s.plans) {
      std::vector<FillItem>& list = plan.rounds[r].fills;
      auto at = std::find_if(list.begin(), list.end(), [&](const FillItem& f) { return same_transfer(f, model); });
      if (at != list.end()) any |= change(list, static_cast<std::size_t>(at - list.begin()), plan);
    }
    return any;
  };
}

// Changes it on one rank only: `change(item, plan)`.
template <typename Change>
Mutation on_one(Wanted wanted, Change change) {
  return [wanted, change](Subject& s, Random& random) {
    if (!planned(s)) return false;
    auto found = pick(s, random, &Round::fills, wanted);
    return found && change(found.item(), *found.plan);
  };
}

Mutation dropped_on_all(Wanted wanted) {
  return on_all(wanted, [](std::vector<FillItem>& list, std::size_t at, LoadPlan&) {
    erase(list, at);
    return true;
  });
}
Mutation dropped_on_one(Wanted wanted) {
  return [wanted](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::fills, wanted);
    if (!planned(s) || !found) return false;
    erase(*found.list, found.at);
    return true;
  };
}
Mutation doubled_on_all(Wanted wanted) {
  return on_all(wanted, [](std::vector<FillItem>& list, std::size_t at, LoadPlan&) {
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), FillItem(list[at]));
    return true;
  });
}
Mutation doubled_on_one(Wanted wanted) {
  return [wanted](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::fills, wanted);
    if (!planned(s) || !found) return false;
    found.list->push_back(found.item());
    return true;
  };
}
// Into the next round, on every rank.
Mutation delayed_on_all(Wanted wanted) {
  return [wanted](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::fills, wanted);
    if (!planned(s) || !found || round_of(found) + 1 == found.plan->rounds.size()) return false;
    const FillItem model = found.item();
    const std::size_t r = round_of(found);
    for (LoadPlan& plan : s.plans) {
      std::vector<FillItem>& list = plan.rounds[r].fills;
      auto at = std::find_if(list.begin(), list.end(), [&](const FillItem& f) { return same_transfer(f, model); });
      plan.rounds[r + 1].communicates = true;
      if (at == list.end()) continue;
      plan.rounds[r + 1].fills.push_back(*at);
      list.erase(at);
    }
    return true;
  };
}

// A stretch `elements` further on in the shard, place and all.
bool move_stretch(FillItem& fill, const LoadPlan& plan, std::uint64_t elements) {
  fill.range.begin += elements;
  fill.range.end += elements;
  fill.at.offset += elements * element_size(plan, fill.tensor);
  return true;
}
bool lengthen_stretch(FillItem& fill, const LoadPlan& plan, bool longer) {
  const std::uint64_t size = element_size(plan, fill.tensor);
  if (!longer && fill.range.size() < 2) return false;
  fill.range.end += longer ? 1 : std::uint64_t{0} - 1;
  fill.bytes += longer ? size : std::uint64_t{0} - size;
  return true;
}
bool next_root(FillItem& fill, const LoadPlan& plan) {
  const std::uint64_t members = plan.groups[fill.group].size();
  fill.peer = static_cast<std::uint32_t>((fill.peer + 1) % members);
  return members > 1;
}

// Two neighbouring broadcasts of spread staging with other roots, on all ranks: `change(first, second, plan, list)`.
template <typename Change>
Mutation neighbours_on_all(Change change) {
  return [change](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::fills, is_spread);
    if (!planned(s) || !found || found.at + 1 >= found.list->size()) return false;
    const std::size_t r = round_of(found);
    const FillItem first = found.item();
    const FillItem second = (*found.list)[found.at + 1];
    if (!is_spread(second) || first.peer == second.peer) return false;
    for (LoadPlan& plan : s.plans) {
      std::vector<FillItem>& list = plan.rounds[r].fills;
      auto at = std::find_if(list.begin(), list.end(), [&](const FillItem& f) { return same_transfer(f, first); });
      if (!change(list, static_cast<std::size_t>(at - list.begin()), plan)) return false;
    }
    return true;
  };
}

bool in_a_spread(const Round& round, const Place& place) {
  return !round.spread.empty() && place.space == Space::stage && place.offset >= round.spread.front().offset;
}

// A read into, or a copy out of, spread staging, changed: `change(list, position, found)`.
template <typename Item, typename Place, typename Change>
Mutation of_spread(std::vector<Item> Round::*member, Place place, Change change) {
  return [member, place, change](Subject& s, Random& random) {
    std::vector<std::pair<LoadPlan*, Round*>> rounds;
    for (LoadPlan& plan : s.plans) {
      for (Round& round : plan.rounds) {
        if (std::any_of((round.*member).begin(), (round.*member).end(),
                        [&](const Item& item) { return in_a_spread(round, place(item)); })) {
          rounds.emplace_back(&plan, &round);
        }
      }
    }
    if (rounds.empty()) return false;
    auto [plan, round] = rounds[random.below(rounds.size())];
    std::vector<Item>& list = round->*member;
    for (;;) {
      const std::size_t at = random.below(list.size());
      if (in_a_spread(*round, place(list[at]))) return change(list, at, *plan, *round);
    }
  };
}
template <typename Change>
Mutation of_spread_read(Change change) {
  return of_spread(&Round::reads, [](const ReadItem& i) { return i.to; }, change);
}
template <typename Change>
Mutation of_spread_unpack(Change change) {
  return of_spread(&Round::unpacks, [](const CopyItem& i) { return i.from; }, change);
}

// A part of the spread staging, on one rank or on all: `change(list, position, plan)`.
template <typename Change>
Mutation spread_part(bool all, Change change) {
  return [all, change](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::spread);
    if (!found) return false;
    const std::size_t r = round_of(found);
    if (!all) return change(*found.list, found.at, *found.plan);
    const std::size_t at = found.at;
    for (LoadPlan& plan : s.plans) {
      if (!change(plan.rounds[r].spread, at, plan)) return false;
    }
    return true;
  };
}
bool drop_part(std::vector<StagedPart>& list, std::size_t at, LoadPlan&) {
  erase(list, at);
  return true;
}
bool double_part(std::vector<StagedPart>& list, std::size_t at, LoadPlan&) {
  list.push_back(list[at]);
  return true;
}
bool move_part(std::vector<StagedPart>& list, std::size_t at, LoadPlan&) {
  list[at].offset += 1;
  return true;
}
bool shorten_part(std::vector<StagedPart>& list, std::size_t at, LoadPlan&) {
  list[at].range.end -= 1;
  return true;
}
bool cut_part_front(std::vector<StagedPart>& list, std::size_t at, LoadPlan&) {
  list[at].range.begin += 1;
  return true;
}
bool rename_part(std::vector<StagedPart>& list, std::size_t at, LoadPlan&) {
  list[at].tensor += 1;
  return true;
}
// In the other order, end to end again.
bool swap_parts(std::vector<StagedPart>& list, std::size_t at, LoadPlan& plan) {
  if (at + 1 == list.size()) return false;
  const std::uint64_t begin = list[at].offset;
  std::swap(list[at], list[at + 1]);
  list[at].offset = begin;
  list[at + 1].offset = begin + list[at].range.size() * element_size(plan, list[at].tensor);
  return true;
}

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

    // Stretches of a shard that an owner broadcasts.
    {"RelayRootOnOne", Property::transfers, on_one(is_relay, next_root)},
    {"RelayRootOnAll", Property::arrivals, on_all(is_relay, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return next_root(list[at], plan); })},
    {"RelayMovedOnOne", Property::transfers, on_one(is_relay, [](FillItem& f, LoadPlan& plan) { return move_stretch(f, plan, 1); })},
    {"RelayMovedOnAll", Property::arrivals, on_all(is_relay, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return move_stretch(list[at], plan, 1); })},
    {"RelayShorterOnOne", Property::transfers, on_one(is_relay, [](FillItem& f, LoadPlan& plan) { return lengthen_stretch(f, plan, false); })},
    {"RelayShorterOnAll", Property::arrivals, on_all(is_relay, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return lengthen_stretch(list[at], plan, false); })},
    {"RelayLongerOnOne", Property::transfers, on_one(is_relay, [](FillItem& f, LoadPlan& plan) { return lengthen_stretch(f, plan, true); })},
    {"RelayLongerOnAll", Property::arrivals, on_all(is_relay, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return lengthen_stretch(list[at], plan, true); })},
    {"RelayPlaceOnOne", Property::arrivals, on_one(is_relay, [](FillItem& f, LoadPlan& plan) { f.at.offset += element_size(plan, f.tensor); return true; })},
    {"RelayIntoStaging", Property::arrivals, on_one(is_relay, [](FillItem& f, LoadPlan&) { f.at = {Space::stage, 0}; return true; })},
    {"RelayMissingOnOne", Property::transfers, dropped_on_one(is_relay)},
    {"RelayMissingOnAll", Property::arrivals, dropped_on_all(is_relay)},
    {"RelayDoubledOnOne", Property::transfers, doubled_on_one(is_relay)},
    {"RelayDoubledOnAll", Property::arrivals, doubled_on_all(is_relay)},
    {"RelayDelayedOnAll", Property::arrivals, delayed_on_all(is_relay)},
    {"RelayWithParts", Property::transfers, on_all(is_relay, [](std::vector<FillItem>& list, std::size_t at, LoadPlan&) { list[at].part = 1; return true; })},

    {"GatherDoubledOnAll", Property::arrivals, doubled_on_all(is_gather)},
    {"GatherDelayedOnAll", Property::arrivals, delayed_on_all(is_gather)},
    {"GatherMovedOnAll", Property::arrivals, on_all(is_gather, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return move_stretch(list[at], plan, 1); })},
    {"GatherShorterOnAll", Property::arrivals, on_all(is_gather, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return lengthen_stretch(list[at], plan, false); })},
    {"GatherLongerOnAll", Property::arrivals, on_all(is_gather, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return lengthen_stretch(list[at], plan, true); })},

    // Staging that is broadcast.
    {"SpreadRootOnOne", Property::transfers, on_one(is_spread, next_root)},
    {"SpreadRootOnAll", Property::arrivals, on_all(is_spread, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { return next_root(list[at], plan); })},
    {"SpreadMovedOnOne", Property::arrivals, on_one(is_spread, [](FillItem& f, LoadPlan& plan) { f.at.offset += element_size(plan, f.tensor); return true; })},
    {"SpreadMovedOnAll", Property::arrivals, on_all(is_spread, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { list[at].at.offset += element_size(plan, list[at].tensor); return true; })},
    {"SpreadShorterOnOne", Property::transfers, on_one(is_spread, [](FillItem& f, LoadPlan& plan) { f.bytes -= element_size(plan, f.tensor); return true; })},
    {"SpreadShorterOnAll", Property::arrivals, on_all(is_spread, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { list[at].bytes -= element_size(plan, list[at].tensor); return true; })},
    {"SpreadLongerOnAll", Property::arrivals, on_all(is_spread, [](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) { list[at].bytes += element_size(plan, list[at].tensor); return true; })},
    {"SpreadMissingOnOne", Property::transfers, dropped_on_one(is_spread)},
    {"SpreadMissingOnAll", Property::arrivals, dropped_on_all(is_spread)},
    {"SpreadDoubledOnOne", Property::transfers, doubled_on_one(is_spread)},
    {"SpreadDoubledOnAll", Property::arrivals, doubled_on_all(is_spread)},
    {"SpreadDelayedOnAll", Property::arrivals, delayed_on_all(is_spread)},
    {"SpreadInAnotherGroup", Property::transfers, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, is_spread);
       if (!planned(s) || !found) return false;
       RankGroup half = RankGroup::all(s.plans.size());
       --half.axes[0].count;
       for (LoadPlan& plan : s.plans) plan.groups[found.item().group] = half;
       return true;
     }},
    {"SpreadCutElsewhereOnAll", Property::arrivals, neighbours_on_all([](std::vector<FillItem>& list, std::size_t at, LoadPlan& plan) {
       const std::uint64_t size = element_size(plan, list[at + 1].tensor);
       if (list[at + 1].bytes <= size) return false;
       list[at].bytes += size;
       list[at + 1].at.offset += size;
       list[at + 1].bytes -= size;
       return true;
     })},
    {"SpreadMergedOnAll", Property::arrivals, neighbours_on_all([](std::vector<FillItem>& list, std::size_t at, LoadPlan&) {
       list[at].bytes += list[at + 1].bytes;
       erase(list, at + 1);
       return true;
     })},
    {"SpreadSwappedOnAll", Property::arrivals, neighbours_on_all([](std::vector<FillItem>& list, std::size_t at, LoadPlan&) {
       std::swap(list[at], list[at + 1]);
       return true;
     })},
    {"SpreadRootsSwappedOnAll", Property::arrivals, neighbours_on_all([](std::vector<FillItem>& list, std::size_t at, LoadPlan&) {
       std::swap(list[at].peer, list[at + 1].peer);
       return true;
     })},
    {"SpreadSwappedOnOne", Property::transfers, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, is_spread);
       if (!planned(s) || !found || found.at + 1 == found.list->size() || !is_spread((*found.list)[found.at + 1])) return false;
       std::swap(found.item(), (*found.list)[found.at + 1]);
       return true;
     }},

    {"SpreadPartDroppedOnOne", Property::rounds, spread_part(false, drop_part)},
    {"SpreadPartDroppedOnAll", Property::arrivals, spread_part(true, drop_part)},
    {"SpreadPartDoubledOnOne", Property::rounds, spread_part(false, double_part)},
    {"SpreadPartDoubledOnAll", Property::arrivals, spread_part(true, double_part)},
    {"SpreadPartMovedOnOne", Property::rounds, spread_part(false, move_part)},
    {"SpreadPartMovedOnAll", Property::arrivals, spread_part(true, move_part)},
    {"SpreadPartShortenedOnOne", Property::rounds, spread_part(false, shorten_part)},
    {"SpreadPartShortenedOnAll", Property::arrivals, spread_part(true, shorten_part)},
    {"SpreadPartCutInFrontOnAll", Property::arrivals, spread_part(true, cut_part_front)},
    {"SpreadPartRenamedOnOne", Property::rounds, spread_part(false, rename_part)},
    {"SpreadPartRenamedOnAll", Property::arrivals, spread_part(true, rename_part)},
    {"SpreadPartsSwappedOnOne", Property::rounds, spread_part(false, swap_parts)},
    {"SpreadPartsSwappedOnAll", Property::arrivals, spread_part(true, swap_parts)},

    {"SpreadReadDropped", Property::reads, of_spread_read([](std::vector<ReadItem>& list, std::size_t at, LoadPlan&, Round&) {
       erase(list, at);
       return true;
     })},
    {"SpreadReadMoved", Property::arrivals, of_spread_read([](std::vector<ReadItem>& list, std::size_t at, LoadPlan& plan, Round&) {
       list[at].to.offset += element_size(plan, list[at].tensor);
       return true;
     })},
    {"SpreadReadsSwapped", Property::arrivals, of_spread_read([](std::vector<ReadItem>& list, std::size_t at, LoadPlan&, Round&) {
       if (at + 1 == list.size() || list[at + 1].to.space != Space::stage) return false;
       std::swap(list[at].to, list[at + 1].to);
       return true;
     })},
    {"SpreadReadBehindTheSpread", Property::arrivals, of_spread_read([](std::vector<ReadItem>& list, std::size_t at, LoadPlan& plan, Round& round) {
       list[at].to.offset = round.stage_bytes;
       round.stage_bytes += list[at].box.elements() * element_size(plan, list[at].tensor);
       plan.stage_bytes = std::max(plan.stage_bytes, round.stage_bytes);
       return true;
     })},
    {"SpreadUnpackDropped", Property::arrivals, of_spread_unpack([](std::vector<CopyItem>& list, std::size_t at, LoadPlan&, Round&) {
       erase(list, at);
       return true;
     })},
    {"SpreadUnpackDoubled", Property::arrivals, of_spread_unpack([](std::vector<CopyItem>& list, std::size_t at, LoadPlan&, Round&) {
       list.push_back(list[at]);
       return true;
     })},
    {"SpreadUnpackWithAnotherFrame", Property::arrivals, of_spread_unpack([](std::vector<CopyItem>& list, std::size_t at, LoadPlan&, Round&) {
       if (list[at].to_box.ndim() == 0) return false;
       list[at].to_box.start[0] -= 1;
       return true;
     })},
    {"SpreadUnpackFromAnotherPart", Property::arrivals, of_spread_unpack([](std::vector<CopyItem>& list, std::size_t at, LoadPlan&, Round& round) {
       if (round.spread.size() < 2) return false;
       const StagedPart& other = round.spread[0].offset == list[at].from.offset ? round.spread[1] : round.spread[0];
       list[at].from.offset = other.offset;
       return true;
     })},
    {"SpreadUnpackOfAnotherShape", Property::arrivals, of_spread_unpack([](std::vector<CopyItem>& list, std::size_t at, LoadPlan&, Round&) {
       Box& from = list[at].from_box;
       if (from.ndim() < 2 || from.extent[0] == from.extent[1] || from.extent[0] == 1 || from.extent[1] == 1) return false;
       ++from.extent[from.ndim() - 1];
       return true;
     })},

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
