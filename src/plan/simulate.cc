#include "plan/simulate.h"

#include <algorithm>
#include <map>

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

double time_bound(const PlanSummary& summary, const Costs& costs) {
  auto over = [](std::uint64_t bytes, const std::optional<double>& rate) {
    return rate ? static_cast<double>(bytes) / *rate : 0;
  };
  const double reading = std::max(over(summary.read_bytes.sum, costs.filesystem),
                                  over(summary.read_bytes.max, costs.filesystem_rank));
  const double filling = over(std::max(summary.received_bytes.max, summary.leaving_bytes.max), costs.fabric_rank);
  const double unhidden = summary.rounds_at_once > 1 ? 1.0 / static_cast<double>(std::max<std::uint64_t>(1, summary.rounds)) : 1.0;
  return std::max(reading, filling) + std::min(reading, filling) * unhidden;
}

namespace {

// MPI's broadcasts that do not block are sent to each of so many ranks, to more along a chain (Open MPI, nbc_ibcast.c). NCCL's
// go along a chain always.
constexpr std::uint64_t kMostSentToEach = 4;

// Of a group's members, those on this rank's node.
struct NodeShare {
  std::uint64_t self = 0, size = 1;  // this rank's number, and that of all members
  bool first = true;                 // this rank is the first of them
  std::vector<FlatRange> runs;       // their numbers
};

NodeShare node_share(const RankGroup& group, const NodeMap& nodes, std::uint64_t rank) {
  const std::uint64_t self = group.find(rank).value();
  const std::uint64_t node = nodes.node(rank);
  const auto here = [&](std::uint64_t i) { return nodes.node(group[i]) == node; };
  NodeShare share;
  share.self = self;
  share.size = group.size();
  for (std::uint64_t i = self; share.first && i-- > 0;) {
    share.first = !here(i);
    if (nodes.neighbours()) break;
  }
  if (!share.first) return share;
  share.runs = {{self, self + 1}};
  for (std::uint64_t i = self + 1; i < share.size; ++i) {
    if (here(i)) {
      if (share.runs.back().end != i) share.runs.push_back({i, i});
      share.runs.back().end = i + 1;
    } else if (nodes.neighbours()) {
      break;
    }
  }
  return share;
}

}  // namespace

RankFigures rank_figures(const TensorIndex& index, const PlanParams& params, const LoadPlan& plan) {
  const NodeMap& nodes = params.nodes;
  RankFigures f;
  std::vector<NodeShare> shares;
  for (const RankGroup& group : plan.groups) shares.push_back(node_share(group, nodes, plan.rank));
  const std::uint64_t node = nodes.node(plan.rank);
  for (const Round& round : plan.rounds) {
    for (const ReadItem& item : round.reads) {
      if (index.tensors[item.tensor].storage == StorageKind::fill) continue;
      f.read_bytes += item.box.elements() * dtype_size(index.tensors[item.tensor].dtype);
      f.requests += item.joined ? 0 : 1;
    }
    for (const FillItem& fill : round.fills) {
      const bool message = fill.kind == FillItem::Kind::send || fill.kind == FillItem::Kind::receive;
      const std::uint64_t brought = brought_bytes(fill, message ? 0 : shares[fill.group].self);
      const std::uint64_t others = message ? 1 : shares[fill.group].size - 1;
      f.sent_bytes += brought * others;
      const bool chain = fill.kind == FillItem::Kind::broadcast && (params.pinned || others >= kMostSentToEach);
      f.leaving_bytes += chain ? brought : brought * others;
      if (fill.kind != FillItem::Kind::send) f.received_bytes += fill.bytes - brought;
      if (fill.kind == FillItem::Kind::receive && nodes.node(fill.peer) != node) f.from_nodes_bytes += fill.bytes;
      if (message || !shares[fill.group].first) continue;
      // Into a node, what none of its members has needs to come once.
      std::uint64_t has = 0;
      for (const FlatRange& run : shares[fill.group].runs) {
        if (fill.kind == FillItem::Kind::broadcast) {
          has += fill.peer >= run.begin && fill.peer < run.end ? fill.bytes : 0;
        } else {
          has += std::min(fill.bytes, run.end * fill.part) - std::min(fill.bytes, run.begin * fill.part);
        }
      }
      f.from_nodes_bytes += fill.bytes - has;
    }
  }
  f.shard_bytes = plan.shard_bytes;
  f.staging_bytes = plan.stage_bytes * plan.rounds_at_once + plan.keep_bytes;
  return f;
}

PlanSummary simulate(const TensorIndex& index, const Layout& layout, const PlanParams& params,
                     const SimulateOptions& options) {
  PlanSummary out;
  out.ranks = layout.mesh().ranks();
  out.tensors = index.tensors.size();
  for (const TensorMeta& tensor : index.tensors) {
    if (tensor.storage != StorageKind::fill) out.selected_bytes += tensor.bytes();
  }
  auto planner = Planner::make(index, layout, params);
  out.why = planner->why();
  std::optional<Validator> validator;
  if (options.validate) validator.emplace(index, layout, params);
  const StagingSplit split = checked_split(params, converts_any(index, params.cast));
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> nodes;  // read and received by each
  for (std::uint64_t rank = 0; rank < out.ranks; ++rank) {
    const LoadPlan plan = planner->plan(rank);
    if (validator) validator->add(plan);
    if (options.watch) options.watch(plan);
    RankFigures f = rank_figures(index, params, plan);
    f.staging_bytes += split.slots * split.slot_bytes + split.scratch;
    out.rounds = plan.rounds.size();
    out.rounds_at_once = plan.rounds_at_once;
    out.read_bytes.add(f.read_bytes, rank);
    out.requests.add(f.requests, rank);
    out.received_bytes.add(f.received_bytes, rank);
    out.sent_bytes.add(f.sent_bytes, rank);
    out.leaving_bytes.add(f.leaving_bytes, rank);
    out.shard_bytes.add(f.shard_bytes, rank);
    out.staging_bytes.add(f.staging_bytes, rank);
    out.peak_bytes.add(f.peak_bytes(), rank);
    auto& node = nodes[params.nodes.node(rank)];
    node.first += f.read_bytes;
    node.second += f.from_nodes_bytes;
    if (options.per_rank != nullptr) options.per_rank->push_back(f);
  }
  out.nodes = nodes.size();
  for (const auto& [node, bytes] : nodes) {
    out.node_read_bytes.add(bytes.first, node);
    out.node_fill_bytes.add(bytes.second, node);
  }
  if (validator) validator->finish();
  out.validated = options.validate;
  return out;
}

}  // namespace slabload
