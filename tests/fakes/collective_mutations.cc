// Mutations of what a group of ranks does together: broadcasts of stretches of a shard, all-gathers, broadcasts of staging.
#include <algorithm>

#include "fakes/mutation_tools.h"

namespace slabload::testing {
namespace {

using Kind = FillItem::Kind;

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

// Broadcasts of what came by messages in an earlier round, to other rounds, on every rank.
Mutation shared_later(std::ptrdiff_t by) {
  return [by](Subject& s, Random& random) {
    auto read_here = [&](std::size_t r, std::uint32_t t) {
      return std::any_of(s.plans.begin(), s.plans.end(), [&](const LoadPlan& plan) {
        const std::vector<ReadItem>& reads = plan.rounds[r].reads;
        return std::any_of(reads.begin(), reads.end(), [&](const ReadItem& i) { return i.tensor == t; });
      });
    };
    std::vector<std::pair<std::size_t, std::uint32_t>> all;
    for (std::size_t r = 1; r < s.plans[0].rounds.size(); ++r) {
      for (const FillItem& fill : s.plans[0].rounds[r].fills) {
        if (is_relay(fill) && !read_here(r, fill.tensor)) all.emplace_back(r, fill.tensor);
      }
    }
    if (!planned(s) || all.empty()) return false;
    const auto [from, tensor] = all[random.below(all.size())];
    const auto to = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(from) + by);
    for (LoadPlan& plan : s.plans) {
      if (plan.rounds.size() <= to) plan.rounds.resize(to + 1);
      plan.rounds[to].communicates = true;
      std::vector<FillItem>& fills = plan.rounds[from].fills;
      auto moves = [t = tensor](const FillItem& f) { return is_relay(f) && f.tensor == t; };
      std::copy_if(fills.begin(), fills.end(), std::back_inserter(plan.rounds[to].fills), moves);
      std::erase_if(fills, moves);
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

}  // namespace

const std::vector<NamedMutation>& collective_mutations() {
  static const std::vector<NamedMutation> all{
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
    {"SharedTooEarlyOnAll", Property::transfers, shared_later(-1)},
    {"SharedLaterOnAll", Property::transfers, shared_later(1)},
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
     })}};
  return all;
}

}  // namespace slabload::testing
