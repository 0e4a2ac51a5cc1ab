#include "fakes/plan_mutations.h"

#include <algorithm>

#include "fakes/mutation_tools.h"
#include "plan/planner.h"

namespace slabload::testing {
namespace {

using Kind = FillItem::Kind;

bool swap_messages(Subject& s, Random& random, Kind kind) {
  auto first = pick(s, random, &Round::fills, of_kind(kind));
  if (!first) return false;
  for (std::size_t i = first.at + 1; i < first.list->size(); ++i) {
    FillItem& other = (*first.list)[i];
    if (other.kind != kind || other.peer != first.item().peer) continue;
    std::swap(other, first.item());
    return true;
  }
  return false;
}

// Moves an item to another round, taking its read step along where the round has one for its tensor.
bool move_read(Subject& s, Random& random) {
  auto found = pick(s, random, &Round::reads);
  if (!found) return false;
  ReadItem item = found.item();
  for (Round& other : found.plan->rounds) {
    if (&other == found.round) continue;
    // What is read just as early as heads wait before they broadcast is right as well.
    if (item.to.space == Space::shard && &other + found.plan->rounds_at_once == found.round) continue;
    for (std::uint32_t step = 0; step < other.steps.size(); ++step) {
      if (other.steps[step].tensor != item.tensor) continue;
      erase(*found.list, found.at);
      item.step = step;
      auto at = std::find_if(other.reads.begin(), other.reads.end(),
                             [&](const ReadItem& r) { return r.step > step; });
      other.reads.insert(at, item);
      return true;
    }
  }
  return false;
}

// Moves a read away from a transfer of its own round that sends some of it.
bool move_read_away_from_transfers(Subject& s, Random& random) {
  Subject copy = s;
  for (int tries = 0; tries < 10; ++tries) {
    s = copy;
    Random same = random;  // to find the read that move_read will take
    auto found = pick(s, same, &Round::reads);
    if (!found) return false;
    const ReadItem& read = found.item();
    const std::vector<FillItem>& fills = found.round->fills;
    bool sent = std::any_of(fills.begin(), fills.end(), [&](const FillItem& f) {
      if (f.tensor != read.tensor || f.kind == Kind::receive) return false;
      return f.kind != Kind::send || !intersect(f.box, read.box).empty();
    });
    if (move_read(s, random) && sent) return true;
  }
  return false;
}

template <typename Item>
bool move_to_other_round(Subject& s, Random& random, std::vector<Item> Round::*member) {
  auto found = pick(s, random, member);
  if (!found || found.plan->rounds.size() < 2) return false;
  Round& other = found.plan->rounds[random.below(found.plan->rounds.size())];
  if (&other == found.round) return false;
  Item item = found.item();
  erase(*found.list, found.at);
  (other.*member).push_back(item);
  return true;
}

bool steal_read(Subject& s, Random& random) {
  auto found = pick(s, random, &Round::reads);
  if (!found || found.item().to.space == Space::shard || is_baseline(s.c.params.strategy)) return false;
  LoadPlan& other = any_plan(s, random);
  if (&other == found.plan) return false;
  std::size_t r = static_cast<std::size_t>(found.round - found.plan->rounds.data());
  ReadItem item = found.item();
  erase(*found.list, found.at);
  Round& round = other.rounds[r];
  auto at = std::find_if(round.reads.begin(), round.reads.end(),
                         [&](const ReadItem& i) { return i.step > item.step; });
  round.reads.insert(at, item);
  return true;
}

// Where the elements of `box` lie in a dense buffer that holds `outer`.
std::vector<std::uint64_t> positions_in(const Box& box, const Box& outer) {
  std::vector<std::uint64_t> out{0};
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    std::vector<std::uint64_t> next;
    for (std::uint64_t prefix : out) {
      for (std::uint64_t i = 0; i < box.extent[d]; ++i)
        next.push_back(prefix * outer.extent[d] + box.start[d] + i - outer.start[d]);
    }
    out = std::move(next);
  }
  return out;
}

}  // namespace

const std::vector<NamedMutation>& item_mutations() {
  static const std::vector<NamedMutation> all{
    {"DropRead", Property::reads, dropped(&Round::reads)},
    {"DoubleRead", Property::reads, doubled(&Round::reads)},
    {"DropPack", Property::arrivals, dropped(&Round::packs)},
    {"DoublePack", Property::arrivals, doubled(&Round::packs)},
    {"DropUnpack", Property::arrivals, dropped(&Round::unpacks)},
    {"DoubleUnpack", Property::arrivals, doubled(&Round::unpacks)},
    {"DropSend", Property::transfers, dropped_fill(Kind::send)},
    {"DropReceive", Property::transfers, dropped_fill(Kind::receive)},
    {"DropAllGather", Property::transfers, dropped_fill(Kind::all_gather)},
    {"DropBroadcast", Property::transfers, dropped_fill(Kind::broadcast)},
    {"DoubleFill", Property::transfers, doubled(&Round::fills)},
    {"ShiftReadPlace", Property::arrivals, changed(&Round::reads, [](ReadItem& i, Random& r) { i.to.offset += some_shift(r); })},
    {"ShiftFillPlace", Property::arrivals, changed(&Round::fills, [](FillItem& i, Random& r) { i.at.offset += some_shift(r); })},
    {"ShiftPackSource", Property::arrivals, changed(&Round::packs, [](CopyItem& i, Random& r) { i.from.offset += some_shift(r); })},
    {"ShiftUnpackSource", Property::arrivals, changed(&Round::unpacks, [](CopyItem& i, Random& r) { i.from.offset += some_shift(r); })},
    {"ShiftUnpackTarget", Property::arrivals, changed(&Round::unpacks, [](CopyItem& i, Random& r) { i.to.offset += some_shift(r); })},
    {"PlaceOfReadInOtherSpace", Property::arrivals,
     changed(&Round::reads, [](ReadItem& i, Random&) { i.to.space = i.to.space == Space::shard ? Space::stage : Space::shard; })},
    {"PlaceOfReadKept", Property::arrivals, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads);
       if (!found || found.item().to.space == Space::keep) return false;
       found.item().to.space = Space::keep;
       return true;
     }},
    {"PlaceOfFillInOtherSpace", Property::arrivals,
     changed(&Round::fills, [](FillItem& i, Random&) { i.at.space = i.at.space == Space::shard ? Space::stage : Space::shard; })},
    {"ChangeReadBox", Property::reads, changed(&Round::reads, [](ReadItem& i, Random& r) { shift_box(i.box, r); })},
    {"ChangeMessageBox", Property::transfers, changed_fill({Kind::send, Kind::receive}, [](FillItem& i, Random& r) { shift_box(i.box, r); })},
    {"ChangePackBox", Property::arrivals, changed(&Round::packs, [](CopyItem& i, Random& r) { shift_box(i.box, r); })},
    {"ChangePackTarget", Property::arrivals, changed(&Round::packs, [](CopyItem& i, Random& r) { shift_box(i.to_box, r); })},
    {"ChangeUnpackBox", Property::arrivals, changed(&Round::unpacks, [](CopyItem& i, Random& r) { shift_box(i.box, r); })},
    {"ChangeUnpackTarget", Property::arrivals, changed(&Round::unpacks, [](CopyItem& i, Random& r) { shift_box(i.to_box, r); })},
    {"ChangeUnpackSource", Property::arrivals, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::unpacks);
       if (!found) return false;
       Box before = found.item().from_box;
       shift_box(found.item().from_box, random);
       // A buffer that is longer in its outermost dimension, or in any of only one row, holds the box where it was.
       return positions_in(found.item().box, before) != positions_in(found.item().box, found.item().from_box);
     }},
    {"ChangeTensorOfRead", Property::reads, changed(&Round::reads, [](ReadItem& i, Random& r) { i.tensor += static_cast<std::uint32_t>(1 + r.below(50)); })},
    {"ChangeTensorOfFill", Property::transfers, changed(&Round::fills, [](FillItem& i, Random& r) { i.tensor += static_cast<std::uint32_t>(1 + r.below(50)); })},
    {"ChangeTensorOfPack", Property::arrivals, changed(&Round::packs, [](CopyItem& i, Random& r) { i.tensor += static_cast<std::uint32_t>(1 + r.below(50)); })},
    {"ChangeTensorOfUnpack", Property::arrivals,
     changed(&Round::unpacks, [](CopyItem& i, Random& r) { i.tensor += static_cast<std::uint32_t>(1 + r.below(50)); })},
    {"ChangeFillBytes", Property::transfers, changed(&Round::fills, [](FillItem& i, Random& r) { i.bytes += some_shift(r); })},
    {"FillOfNothing", Property::transfers, changed(&Round::fills, [](FillItem& i, Random&) { i.bytes = 0; })},
    {"FillOfAGibibyte", Property::item_limit, changed(&Round::fills, [](FillItem& i, Random&) { i.bytes = kItemLimit; })},
    {"ChangePeer", Property::transfers, changed_fill({Kind::send, Kind::receive, Kind::broadcast},
                                [](FillItem& i, Random& r) { i.peer += static_cast<std::uint32_t>(1 + r.below(30)); })},
    {"SendToItself", Property::transfers, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, of_kind(Kind::send));
       if (found) found.item().peer = static_cast<std::uint32_t>(found.plan->rank);
       return static_cast<bool>(found);
     }},
    {"SendBecomesReceive", Property::transfers, changed_fill({Kind::send}, [](FillItem& i, Random&) { i.kind = Kind::receive; })},
    {"ReceiveBecomesSend", Property::transfers, changed_fill({Kind::receive}, [](FillItem& i, Random&) { i.kind = Kind::send; })},
    {"ReorderSends", Property::transfers, [](Subject& s, Random& random) { return swap_messages(s, random, Kind::send); }},
    {"ReorderReceives", Property::transfers, [](Subject& s, Random& random) { return swap_messages(s, random, Kind::receive); }},
    {"ReorderCollectives", Property::transfers, [](Subject& s, Random& random) {
       auto collective = [](const FillItem& f) { return f.kind == Kind::all_gather || f.kind == Kind::broadcast; };
       for (int tries = 0; tries < 20; ++tries) {
         auto first = pick(s, random, &Round::fills, collective);
         if (!first) return false;
         for (std::size_t i = first.at + 1; i < first.list->size(); ++i) {
           FillItem& other = (*first.list)[i];
           if (!collective(other) || other.group != first.item().group) continue;
           std::swap(other, first.item());
           return true;
         }
       }
       return false;
     }},
    {"WrongGroup", Property::transfers, changed_fill({Kind::all_gather, Kind::broadcast}, [](FillItem& i, Random& r) { i.group += static_cast<std::uint32_t>(1 + r.below(3)); })},
    {"ChangePart", Property::transfers, changed_fill({Kind::all_gather}, [](FillItem& i, Random& r) { i.part += some_shift(r); })},
    {"NoPart", Property::transfers, changed_fill({Kind::all_gather}, [](FillItem& i, Random&) { i.part = 0; })},
    {"ChangeRange", Property::transfers, changed_fill({Kind::all_gather, Kind::broadcast}, [](FillItem& i, Random& r) {
       (r.one_in(2) ? i.range.begin : i.range.end) += some_shift(r);
     })},
    {"MoveBroadcastPart", Property::transfers, changed_fill({Kind::all_gather, Kind::broadcast}, [](FillItem& i, Random&) {
       i.range.begin += 1;
       i.range.end += 1;
     })},
    {"PartOnAllMembers", Property::arrivals, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, of_kind(Kind::all_gather));
       if (!found) return false;
       std::uint32_t t = found.item().tensor;
       std::uint64_t begin = found.item().range.begin;
       std::uint64_t shift = dtype_size(found.plan->dtypes[t]);
       for (LoadPlan& plan : s.plans) {
         for (Round& round : plan.rounds) {
           for (FillItem& fill : round.fills) {
             if (fill.kind == Kind::all_gather && fill.tensor == t && fill.range.begin == begin) fill.part += shift;
           }
         }
       }
       // Where one member brings everything a larger part changes nothing.
       return found.item().part - shift < found.item().bytes;
     }},
    {"DropAllGatherOnAll", Property::arrivals, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills, of_kind(Kind::all_gather));
       if (!found) return false;
       std::uint32_t t = found.item().tensor;
       for (LoadPlan& plan : s.plans) {
         for (Round& round : plan.rounds) {
           std::erase_if(round.fills, [&](const FillItem& f) { return f.kind == Kind::all_gather && f.tensor == t; });
         }
       }
       return true;
     }},
    {"ExtraRound", Property::rounds, [](Subject& s, Random& random) {
       any_plan(s, random).rounds.emplace_back();
       return true;
     }},
    {"DropRound", Property::rounds, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       if (plan.rounds.empty()) return false;
       erase(plan.rounds, random.below(plan.rounds.size()));
       return true;
     }},
    {"ExtraStep", Property::rounds, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       if (plan.rounds.empty()) return false;
       plan.rounds[random.below(plan.rounds.size())].steps.push_back({0, 1});
       return true;
     }},
    {"ChangeCalls", Property::rounds, changed(&Round::steps, [](ReadStep& i, Random&) { i.calls += 1; })},
    {"ChangeStepTensor", Property::rounds, changed(&Round::steps, [](ReadStep& i, Random&) { i.tensor += 1; })},
    {"FewerCallsOnAll", Property::reads, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads);
       if (!found) return false;
       auto r = static_cast<std::size_t>(found.round - found.plan->rounds.data());
       for (LoadPlan& plan : s.plans) plan.rounds[r].steps[found.item().step].calls = 0;
       return true;
     }},
    {"ReadOfOtherStep", Property::reads, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads);
       if (found) found.item().step += static_cast<std::uint32_t>(1 + random.below(4));
       return found && (found.item().step >= found.round->steps.size() ||
                        found.round->steps[found.item().step].tensor != found.item().tensor);
     }},
    {"ReadsOutOfOrder", Property::reads, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::reads);
       if (!found || found.at + 1 == found.list->size()) return false;
       std::swap(found.item(), (*found.list)[found.at + 1]);
       return found.item().step != (*found.list)[found.at + 1].step;
     }},
    {"MoveRead", Property::reads, move_read_away_from_transfers},
    {"MoveUnpack", Property::arrivals, [](Subject& s, Random& random) {
       return s.c.params.strategy != "rank0-full" && move_to_other_round(s, random, &Round::unpacks);
     }},
    {"MovePack", Property::arrivals, [](Subject& s, Random& random) { return move_to_other_round(s, random, &Round::packs); }},
    {"MoveFill", Property::transfers, [](Subject& s, Random& random) { return move_to_other_round(s, random, &Round::fills); }},
    {"StealRead", Property::reads, steal_read},
    {"StageOverlap", Property::arrivals, [](Subject& s, Random& random) {
       // Two things of one round at one place, everything that uses the second moved along with it.
       auto first = pick(s, random, &Round::reads, [](const ReadItem& i) { return i.to.space == Space::stage; });
       if (!first || is_baseline(s.c.params.strategy)) return false;
       for (std::size_t i = first.at + 1; i < first.list->size(); ++i) {
         ReadItem& other = (*first.list)[i];
         if (other.to.space != Space::stage) continue;
         std::uint64_t from = other.to.offset, to = first.item().to.offset;
         std::uint64_t end = from + other.box.elements() * dtype_size(first.plan->dtypes[other.tensor]);
         auto move = [&](Place& place) {
           if (place.space == Space::stage && place.offset >= from && place.offset < end) place.offset = place.offset - from + to;
         };
         move(other.to);
         for (CopyItem& copy : first.round->packs) move(copy.from);
         for (CopyItem& copy : first.round->unpacks) move(copy.from);
         for (FillItem& fill : first.round->fills) move(fill.at);
         return true;
       }
       return false;
     }},
    {"TooLittleStaging", Property::budget, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       if (plan.stage_bytes == 0) return false;
       plan.stage_bytes -= 1;
       return true;
     }},
    {"RoundWithTooLittleStaging", Property::budget, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       if (plan.rounds.empty()) return false;
       Round& round = plan.rounds[random.below(plan.rounds.size())];
       if (round.stage_bytes == 0) return false;
       round.stage_bytes -= 1;
       return true;
     }},
    {"BeyondBudget", Property::budget, [](Subject& s, Random& random) {
       if (is_baseline(s.c.params.strategy)) return false;
       any_plan(s, random).stage_bytes = s.c.params.staging / 2 + 1;
       return true;
     }},
    {"BeyondBudgetWithScratch", Property::budget, [](Subject& s, Random& random) {
       if (is_baseline(s.c.params.strategy)) return false;
       bool converts = false;
       for (const TensorMeta& tensor : s.c.index.tensors) converts |= is_converted(tensor, s.c.params.cast);
       any_plan(s, random).stage_bytes = s.c.params.staging / 2;
       return converts;
     }},
    {"KeepsWhatItMustNot", Property::budget, [](Subject& s, Random& random) {
       if (is_baseline(s.c.params.strategy)) return false;
       any_plan(s, random).keep_bytes = 1;
       return true;
     }},
    {"NoSlots", Property::budget, [](Subject& s, Random& random) {
       any_plan(s, random).rounds_at_once = random.of<std::uint64_t>({0, 3});
       return true;
     }},
    {"OtherSlots", Property::budget, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       plan.rounds_at_once = 3 - plan.rounds_at_once;
       return true;
     }},
    {"Communicates", Property::transfers, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       if (plan.rounds.empty()) return false;
       Round& round = plan.rounds[random.below(plan.rounds.size())];
       round.communicates = !round.communicates;
       return true;
     }},
    {"NobodyCommunicates", Property::transfers, [](Subject& s, Random& random) {
       auto found = pick(s, random, &Round::fills);
       if (!found) return false;
       auto r = static_cast<std::size_t>(found.round - found.plan->rounds.data());
       for (LoadPlan& plan : s.plans) plan.rounds[r].communicates = false;
       return true;
     }},
    {"MisstatesReaders", Property::reads, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       plan.every_rank_reads = !plan.every_rank_reads;
       return true;
     }},
    {"OtherDtype", Property::shards, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       DType& dtype = plan.dtypes[random.below(plan.dtypes.size())];
       dtype = static_cast<DType>((static_cast<int>(dtype) + 1) % kDTypeCount);
       return true;
     }},
    {"OtherShardBox", Property::shards, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       shift_box(plan.shards[random.below(plan.shards.size())].box, random);
       return true;
     }},
    {"ShardsOverlap", Property::shards, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       std::size_t t = random.below(plan.shards.size());
       if (t == 0 || plan.shards[t].bytes == 0 || plan.shards[t].offset == 0) return false;
       plan.shards[t].offset -= 64;
       return true;
     }},
    {"ShardSpaceTooSmall", Property::shards, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       std::uint64_t end = 0;
       for (const ShardPlace& shard : plan.shards) end = std::max(end, shard.offset + shard.bytes);
       if (end == 0) return false;
       plan.shard_bytes = end - 1;
       return true;
     }},
    {"ReplicasForgotten", Property::shards, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       std::int32_t& group = plan.replicas[random.below(plan.replicas.size())];
       group = group < 0 ? 0 : -1;
       return true;
     }},
    {"MemberMissing", Property::transfers, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       if (plan.groups.empty()) return false;
       RankGroup& group = plan.groups[random.below(plan.groups.size())];
       if (group.size() < 2) return false;
       RankGroup::Axis& axis = group.axes[random.below(group.axes.size())];
       if (axis.count < 2) return false;
       --axis.count;
       return true;
     }},
    {"GroupMissing", Property::transfers, [](Subject& s, Random& random) {
       LoadPlan& plan = any_plan(s, random);
       if (plan.groups.empty() || plan.groups.back().size() < 2) return false;
       plan.groups.pop_back();
       return true;
     }},
    {"RankMissing", Property::rounds, [](Subject& s, Random& random) {
       erase(s.plans, random.below(s.plans.size()));
       return true;
     }},
    {"RankTwice", Property::rounds, [](Subject& s, Random& random) {
       s.plans.push_back(s.plans[random.below(s.plans.size())]);
       return true;
     }},
    {"RankInAnothersPlace", Property::rounds, [](Subject& s, Random& random) {
       std::size_t i = random.below(s.plans.size());
       s.plans[i] = s.plans[(i + 1) % s.plans.size()];
       return true;
     }}};
  return all;
}

const std::vector<NamedMutation>& plan_mutations() {
  static const std::vector<NamedMutation> all = [] {
    std::vector<NamedMutation> out = item_mutations();
    for (const auto* more : {&way_mutations(), &collective_mutations()}) out.insert(out.end(), more->begin(), more->end());
    return out;
  }();
  return all;
}

}  // namespace slabload::testing
