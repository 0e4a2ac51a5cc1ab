#include "plan/mixed_planner.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"
#include "plan/direct_part.h"
#include "plan/exchange_part.h"
#include "plan/relay_part.h"
#include "plan/spread_part.h"

namespace slabload {

MixedPlanner::MixedPlanner(const TensorIndex& index, const Layout& layout, const PlanParams& params)
    : params_(params),
      tensors_(plan_tensors(index, layout, params_)),
      context_{index, layout, params_, split_, tensors_, layout.mesh().ranks()} {
  split_ = fitting_split();
  choose_ways(split_.round_bytes);
  for (const PlanTensor& tensor : tensors_) {
    resolved_.push_back(tensor.layout);
    masks_.push_back(tensor.mask);
    dtypes_.push_back(tensor.dtype);
    rereads_.push_back(tensor.way == Way::reread);
  }
  if (std::find(rereads_.begin(), rereads_.end(), true) == rereads_.end()) rereads_.clear();
  table_.emplace(index, layout.mesh(), resolved_);
  outline();
}

// The split of the budget, if every window can hold at least one grain.
StagingSplit MixedPlanner::fitting_split() {
  const bool converts = converts_any(context_.index, params_.cast);
  auto split_of = [&](std::uint64_t budget) {
    PlanParams with = params_;
    with.staging = budget;
    return split_staging(with, converts);
  };
  auto fits = [&](std::uint64_t budget) {
    std::optional<StagingSplit> split = split_of(budget);
    return split && worst_need(split->round_bytes) <= split->round_bytes;
  };
  if (fits(params_.staging)) return *split_of(params_.staging);
  constexpr std::uint64_t kAnyBudget = std::uint64_t{1} << 60;
  if (!fits(kAnyBudget)) {
    const std::uint64_t slot = split_of(kAnyBudget)->round_bytes;
    fail(Status::usage, "--slot-bytes {}: too small for this plan, which needs slots of {} bytes",
         format_binary(slot), worst_need(slot));
  }
  std::uint64_t low = params_.staging;
  std::uint64_t high = std::max<std::uint64_t>(low, 1);
  while (!fits(high)) high *= 2;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  fail(Status::usage,
       "--staging {}: this plan does not fit, it lacks {} bytes; the smallest budget that works is {} bytes",
       format_binary(params_.staging), high - params_.staging, high);
}

// What a round must be able to stage, where all that could be exchanged is.
std::uint64_t MixedPlanner::worst_need(std::uint64_t capacity) const {
  WayChoice choice(context_.index, params_, capacity, context_.ranks);
  std::uint64_t worst = 0;
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    if (choice.choose(params_.strategy, t, tensors_[t]) != Way::exchange) continue;
    PlanTensor copy = tensors_[t];
    worst = std::max(worst,
                     ExchangePart::prepare(context_.index.tensors[t], params_, context_.ranks, capacity, copy));
  }
  return worst;
}

void MixedPlanner::choose_ways(std::uint64_t round_bytes) {
  WayChoice choice(context_.index, params_, round_bytes, context_.ranks);
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    PlanTensor& tensor = tensors_[t];
    const TensorMeta& meta = context_.index.tensors[t];
    tensor.way = choice.choose(params_.strategy, t, tensor);
    switch (tensor.way) {
      case Way::none:
        break;
      case Way::direct:
      case Way::reread:
        DirectPart::prepare(meta, params_, context_.ranks, tensor);
        break;
      case Way::relay:
        RelayPart::prepare(tensor);
        break;
      case Way::exchange:
        ExchangePart::prepare(meta, params_, context_.ranks, round_bytes, tensor);
        break;
      case Way::spread:
        SpreadPart::prepare(meta.shape, tensor);
        break;
    }
  }
}

void MixedPlanner::outline() {
  auto direct = std::make_unique<DirectPart>(context_);
  auto relay = std::make_unique<RelayPart>(context_);
  auto exchange = std::make_unique<ExchangePart>(context_);
  auto spread = std::make_unique<SpreadPart>(context_);
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    switch (tensors_[t].way) {
      case Way::none:
        break;
      case Way::direct:
      case Way::reread:
        direct->add(t);
        break;
      case Way::relay:
        relay->add(t);
        break;
      case Way::exchange:
        exchange->add(t);
        break;
      case Way::spread:
        spread->add(t);
        break;
    }
  }
  for (PlanPart* part : {static_cast<PlanPart*>(direct.get()), static_cast<PlanPart*>(relay.get()),
                         static_cast<PlanPart*>(exchange.get()), static_cast<PlanPart*>(spread.get())}) {
    part->close();
  }
  // What needs staging has a round for itself; what goes in place runs beside it.
  const std::size_t after_spread = spread->rounds();
  parts_.push_back({std::move(direct), 0});
  parts_.push_back({std::move(relay), 0});
  parts_.push_back({std::move(spread), 0});
  parts_.push_back({std::move(exchange), after_spread});
  std::size_t rounds = 0;
  for (const Placed& placed : parts_) {
    if (placed.part->rounds() != 0) rounds = std::max(rounds, placed.first_round + placed.part->rounds());
  }
  rounds_.resize(rounds);
  for (std::size_t r = 0; r < rounds; ++r) {
    for (const Placed& placed : parts_) {
      rounds_[r].first_step.push_back(narrow<std::uint32_t>(rounds_[r].steps.size()));
      if (!placed.has(r)) continue;
      placed.part->append_steps(r - placed.first_round, rounds_[r].steps);
      rounds_[r].communicates |= context_.ranks > 1 && placed.part->communicates(r - placed.first_round);
    }
  }
}

LoadPlan MixedPlanner::plan(std::uint64_t rank) const {
  LoadPlan plan;
  plan.rank = rank;
  plan.rounds_at_once = split_.rounds;
  plan.dtypes = dtypes_;
  plan.rereads = rereads_;
  plan.shards = place_shards(*table_, dtypes_, rank, &plan.shard_bytes);
  add_replica_groups(context_.layout.mesh(), masks_, plan);
  if (parts_[2].part->rounds() != 0) world_group(context_, plan);
  plan.rounds.resize(rounds_.size());
  BlockIndexes blocks;
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    Round& round = plan.rounds[r];
    round.steps = rounds_[r].steps;
    round.communicates = rounds_[r].communicates;
    std::size_t fills = 0;
    for (const Placed& placed : parts_) {
      if (placed.has(r)) fills += placed.part->fills(r - placed.first_round);
    }
    round.fills.reserve(fills);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].has(r))
        parts_[p].part->append(r - parts_[p].first_round, rounds_[r].first_step[p], plan, blocks, round);
    }
    plan.stage_bytes = std::max(plan.stage_bytes, round.stage_bytes);
  }
  return plan;
}

std::string MixedPlanner::why() const {
  struct Sum {
    std::uint64_t tensors = 0, bytes = 0;
  };
  std::array<Sum, 6> sums;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    Sum& sum = sums.at(static_cast<std::size_t>(tensors_[t].way));
    ++sum.tensors;
    sum.bytes += tensors_[t].stored_bytes();
  }
  std::string out;
  auto say = [&](Way way, const char* what) {
    const Sum& sum = sums.at(static_cast<std::size_t>(way));
    if (sum.tensors == 0) return;
    out += fmt::format("{}{} tensors ({}) {}", out.empty() ? "" : ", ", sum.tensors, format_bytes(sum.bytes), what);
  };
  if (params_.saving) {
    say(Way::direct, "written by their owners from where they lie");
    say(Way::exchange, "sent to the ranks that write them in wide extents");
    return out.empty() ? "nothing to write" : out;
  }
  say(Way::direct, "read by their owners straight to their place");
  say(Way::relay, "read by some of their owners and broadcast to the others");
  say(Way::exchange, "in wide extents whose pieces are sent on");
  say(Way::spread, "many in a request, broadcast to all");
  say(Way::reread, "read by every owner for itself");
  return out.empty() ? "nothing to read" : out;
}

}  // namespace slabload
