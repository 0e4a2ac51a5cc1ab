#include "plan/simulate.h"

#include <algorithm>

#include "plan/staging.h"
#include "plan/validate.h"

namespace slabload {

void RankSpread::add(std::uint64_t value, std::uint64_t rank) {
  min = std::min(min, value);
  if (value > max) max_rank = rank;
  max = std::max(max, value);
  sum += value;
}

double PlanSummary::amplification() const {
  return selected_bytes == 0 ? 1 : static_cast<double>(read_bytes.sum) / static_cast<double>(selected_bytes);
}

double PlanSummary::share_max_over_mean() const {
  return read_bytes.sum == 0 ? 1 : static_cast<double>(read_bytes.max) / read_bytes.mean(ranks);
}

double time_bound(const PlanSummary& summary, const Machine& machine) {
  auto over = [](std::uint64_t bytes, double rate) {
    return rate > 0 ? static_cast<double>(bytes) / rate : 0;
  };
  double reading = std::max(over(summary.read_bytes.sum, machine.filesystem),
                            over(summary.read_bytes.max, machine.filesystem_rank));
  return reading + over(summary.received_bytes.max, machine.fabric_rank);
}

namespace {

RankFigures figures_of(const TensorIndex& index, const LoadPlan& plan) {
  RankFigures f;
  for (const Round& round : plan.rounds) {
    for (const ReadItem& item : round.reads) {
      if (index.tensors[item.tensor].storage == StorageKind::fill) continue;
      f.read_bytes += item.box.elements() * dtype_size(index.tensors[item.tensor].dtype);
      ++f.requests;
    }
    for (const FillItem& fill : round.fills) {
      const bool message = fill.kind == FillItem::Kind::send || fill.kind == FillItem::Kind::receive;
      const std::uint64_t others = message ? 1 : plan.groups[fill.group].size() - 1;
      f.sent_bytes += brought_bytes(plan, fill) * others;
      f.received_bytes += received_bytes(plan, fill);
    }
  }
  f.shard_bytes = plan.shard_bytes;
  f.staging_bytes = plan.stage_bytes * plan.rounds_at_once + plan.keep_bytes;
  return f;
}

}  // namespace

PlanSummary simulate(const TensorIndex& index, const Layout& layout, const PlanParams& params,
                     std::vector<RankFigures>* per_rank) {
  PlanSummary out;
  out.ranks = layout.mesh().ranks();
  out.tensors = index.tensors.size();
  for (const TensorMeta& tensor : index.tensors) {
    if (tensor.storage != StorageKind::fill) out.selected_bytes += tensor.bytes();
  }
  auto planner = Planner::make(index, layout, params);
  out.why = planner->why();
  Validator validator(index, layout, params);
  const StagingSplit split = checked_split(params, converts_any(index, params.cast));
  for (std::uint64_t rank = 0; rank < out.ranks; ++rank) {
    LoadPlan plan = planner->plan(rank);
    validator.add(plan);
    RankFigures f = figures_of(index, plan);
    f.staging_bytes += split.slots * split.slot_bytes + split.scratch;
    out.rounds = plan.rounds.size();
    out.read_bytes.add(f.read_bytes, rank);
    out.requests.add(f.requests, rank);
    out.received_bytes.add(f.received_bytes, rank);
    out.sent_bytes.add(f.sent_bytes, rank);
    out.shard_bytes.add(f.shard_bytes, rank);
    out.staging_bytes.add(f.staging_bytes, rank);
    out.peak_bytes.add(f.peak_bytes(), rank);
    if (per_rank != nullptr) per_rank->push_back(f);
  }
  validator.finish();
  out.validated = true;
  return out;
}

}  // namespace slabload
