#include "report/explain.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/version.h"
#include "layout/name_rules.h"
#include "plan/staging.h"
#include "plan/way_choice.h"
#include "report/json_text.h"
#include "report/seconds_text.h"
#include "report/tensor_moves.h"

namespace slabload {
namespace {

constexpr Way kWays[] = {Way::direct, Way::relay, Way::exchange, Way::spread, Way::reread};

struct WayEstimate {
  Way way;
  Estimate estimate;
  bool chosen;
};

// Nothing for a baseline: it knows one way.
std::vector<WayEstimate> ways_of(const Explain& what) {
  std::vector<WayEstimate> out;
  if (is_baseline(what.params.strategy)) return out;
  const std::vector<PlanTensor> tensors = plan_tensors(what.index, what.layout, what.params);
  const PlanTensor& tensor = tensors[what.number];
  const std::uint64_t round =
      checked_split(what.params, converts_any(what.index, what.params.cast)).round_bytes;
  const WayChoice choice(what.index, what.params, round, what.layout.mesh().ranks());
  const Way chosen = choice.choose(what.params.strategy, what.number, tensor);
  for (Way way : kWays) {
    if (choice.may(what.number, tensor, way))
      out.push_back({way, choice.estimate(tensor, way), way == chosen});
  }
  return out;
}

std::string boxes_text(const ShardPlace& shard) {
  if (shard.blocks.empty()) return shard.box.text();
  constexpr std::size_t kMost = 4;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, shard.blocks.size()); ++i)
    out += (i == 0 ? "" : " ") + shard.blocks[i].box.text();
  if (shard.blocks.size() > kMost) out += fmt::format(" and {} more", shard.blocks.size() - kMost);
  return out;
}

// "rank 3", "ranks 0-7, 12"; what would be long only as "24 ranks from 0 to 62".
class RankNames {
 public:
  void add(std::uint64_t rank) {
    ++count_;
    last_ = rank;
    if (!runs_.empty() && runs_.back().second + 1 == rank) {
      runs_.back().second = rank;
    } else if (runs_.size() <= kMostRuns) {
      runs_.emplace_back(rank, rank);
    }
  }
  std::string text() const {
    if (count_ == 1) return fmt::format("rank {}", last_);
    if (runs_.size() > kMostRuns)
      return fmt::format("{} ranks from {} to {}", count_, runs_.front().first, last_);
    std::string out;
    for (const auto& [first, last] : runs_) {
      out += out.empty() ? "ranks " : ", ";
      out += first == last ? fmt::format("{}", first)
                           : fmt::format("{}{}{}", first, last == first + 1 ? ", " : "-", last);
    }
    return out;
  }

 private:
  static constexpr std::size_t kMostRuns = 4;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs_;  // one more than is shown at most
  std::uint64_t count_ = 0, last_ = 0;
};

std::string names_of(const TensorMoves::ByRank& ranks) {
  RankNames names;
  for (const auto& [rank, traffic] : ranks) names.add(rank);
  return names.text();
}

// The members, without `but`; of a large group only how many, since every rank of it would list all.
std::string names_of(const RankGroup& group, std::uint64_t but = UINT64_MAX) {
  constexpr std::uint64_t kMost = 64;
  const std::uint64_t size = group.size();
  if (size > kMost) {
    return fmt::format("{} ranks from {} to {}", size - (but == UINT64_MAX ? 0 : 1), group[0],
                       group[size - 1]);
  }
  RankNames names;
  for (std::uint64_t i = 0; i < size; ++i) {
    if (group[i] != but) names.add(group[i]);
  }
  return names.text();
}

TensorMoves::Traffic total(const TensorMoves::ByRank& ranks) {
  TensorMoves::Traffic sum;
  for (const auto& [rank, traffic] : ranks) {
    sum.messages += traffic.messages;
    sum.bytes += traffic.bytes;
  }
  return sum;
}

std::string messages_text(const char* verb, const TensorMoves::ByRank& ranks, const char* direction) {
  const TensorMoves::Traffic sum = total(ranks);
  return fmt::format("{} {} in {} message{} {} {}", verb, format_bytes(sum.bytes), sum.messages,
                     sum.messages == 1 ? "" : "s", direction, names_of(ranks));
}

std::string moves_text(const TensorMoves& m, std::uint64_t rank) {
  std::string out;
  auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (!m.reads.empty()) {
    std::string boxes = m.reads[0].text();
    if (m.reads.size() > 1) boxes += " " + m.reads[1].text();
    add(fmt::format("reads {}{} ({})", boxes, m.reads.size() > 2 ? " ..." : "",
                    m.requests == 0 ? "in a neighbour's request"
                                    : fmt::format("{} request{}", m.requests, m.requests == 1 ? "" : "s")));
  }
  if (m.gathered_bytes != 0)
    add(fmt::format("all-gather of {} brings {}", names_of(m.gather_group), format_bytes(m.gathered_bytes)));
  if (m.broadcast_bytes != 0)
    add(fmt::format("broadcasts {} to {}", format_bytes(m.broadcast_bytes),
                    names_of(m.broadcast_group, rank)));
  if (!m.broadcast_from.empty())
    add(fmt::format("gets {} broadcast by {}", format_bytes(total(m.broadcast_from).bytes),
                    names_of(m.broadcast_from)));
  if (!m.received_from.empty()) add(messages_text("receives", m.received_from, "from"));
  if (!m.sent_to.empty()) add(messages_text("sends", m.sent_to, "to"));
  return out.empty() ? "-" : out;
}

// Calls visit(shard, moves) for the plan of every rank.
template <typename Visit>
void for_each_rank(const Explain& what, Visit&& visit) {
  auto planner = Planner::make(what.index, what.layout, what.params);
  const std::uint64_t ranks = what.layout.mesh().ranks();
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    const LoadPlan plan = planner->plan(rank);
    visit(rank, plan.shards[what.number], TensorMoves::of(plan, what.number));
    if (what.planned) what.planned(rank + 1);
  }
}

Json box_json(const Box& box) {
  return {{"start", Json(std::vector<std::uint64_t>(box.start.begin(), box.start.end()))},
          {"extent", Json(std::vector<std::uint64_t>(box.extent.begin(), box.extent.end()))}};
}

Json traffic_json(const TensorMoves::ByRank& ranks) {
  Json out = Json::array();
  for (const auto& [rank, traffic] : ranks)
    out.push_back({{"rank", rank}, {"bytes", traffic.bytes}, {"messages", traffic.messages}});
  return out;
}

Json group_json(const RankGroup& group, std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const std::uint64_t size = group.size();
  return {{"bytes", bytes},
          {"group_size", size},
          {"group_first_rank", group[0]},
          {"group_last_rank", group[size - 1]}};
}

Json rank_json(const ShardPlace& shard, const TensorMoves& m) {
  Json out;
  out["elements"] = shard.box.elements();
  out["shard_bytes"] = shard.bytes;
  out["boxes"] = Json::array();
  for_each_block(shard.box, shard.blocks,
                 [&](const Box& box, const Box&, std::uint64_t) { out["boxes"].push_back(box_json(box)); });
  out["read_bytes"] = m.read_bytes;
  out["read_requests"] = m.requests;
  out["read_boxes"] = Json::array();
  for (const Box& box : m.reads) out["read_boxes"].push_back(box_json(box));
  out["all_gather"] = group_json(m.gather_group, m.gathered_bytes);
  out["broadcast"] = group_json(m.broadcast_group, m.broadcast_bytes);
  out["broadcast_from"] = traffic_json(m.broadcast_from);
  out["received_from"] = traffic_json(m.received_from);
  out["sent_to"] = traffic_json(m.sent_to);
  return out;
}

}  // namespace

std::string explain_text(const Explain& what) {
  const TensorMeta& tensor = what.index.tensors[what.number];
  const std::vector<TensorLayout> resolved = what.layout.resolve(what.index);
  std::string out = fmt::format("tensor {}\n", shown_name(tensor));
  if (what.asked != tensor.name) out += fmt::format("  {} is an alias of it\n", printable(what.asked));
  std::string others;
  for (const std::string& alias : tensor.aliases) {
    if (alias != what.asked) others += (others.empty() ? "" : ", ") + printable(alias);
  }
  if (!others.empty())
    out += fmt::format("  {}: {}\n", what.asked != tensor.name ? "further aliases" : "aliases", others);
  out += fmt::format("  dtype {}  shape {}  {} bytes, {}\n  {}\n", dtype_name(tensor.dtype),
                     tensor.shape.text(), tensor.bytes(), storage_name(tensor.storage),
                     what.layout.rule_text(tensor, resolved[what.number]));
  const std::vector<WayEstimate> ways = ways_of(what);
  for (const WayEstimate& w : ways) {
    if (w.chosen) out += fmt::format("  strategy {}: {}\n", what.params.strategy, way_name(w.way));
  }
  if (ways.empty()) out += fmt::format("  strategy {} (baseline)\n", what.params.strategy);
  for (const WayEstimate& w : ways) {
    out += fmt::format("    {:<9} {:>9} = read {} + fill {} + copy {}{}\n", way_name(w.way),
                       seconds_text(w.estimate.total()), seconds_text(w.estimate.read_s),
                       seconds_text(w.estimate.fill_s), seconds_text(w.estimate.copy_s),
                       w.chosen ? "  <- chosen" : "");
  }
  std::string last;
  std::uint64_t first_rank = 0;
  auto flush = [&](std::uint64_t end) {
    if (last.empty()) return;
    out += fmt::format("  {:<14} {}\n",
                       end - first_rank == 1 ? fmt::format("rank {}", first_rank)
                                             : fmt::format("ranks {}-{}", first_rank, end - 1),
                       last);
  };
  for_each_rank(what, [&](std::uint64_t rank, const ShardPlace& shard, const TensorMoves& moves) {
    std::string text = fmt::format("holds {}, {} elements{}: {}", boxes_text(shard), shard.box.elements(),
                                   shard.empty() ? " (empty)" : "", moves_text(moves, rank));
    if (text == last) return;
    flush(rank);
    last = std::move(text);
    first_rank = rank;
  });
  flush(what.layout.mesh().ranks());
  return out;
}

std::string explain_json(const Explain& what) {
  const TensorMeta& tensor = what.index.tensors[what.number];
  const std::vector<TensorLayout> resolved = what.layout.resolve(what.index);
  const TensorLayout& placed = resolved[what.number];
  const Mesh& mesh = what.layout.mesh();
  Json json;
  json["schema_version"] = 1;
  json["version"] = kVersion;
  json["tensor"] = json_text(tensor.name);
  json["asked_name"] = json_text(what.asked);
  json["is_alias"] = what.asked != tensor.name;
  json["name_in_file"] = json_text(tensor.path);
  json["aliases"] = Json::array();
  for (const std::string& alias : tensor.aliases) json["aliases"].push_back(json_text(alias));
  json["dtype"] = dtype_name(tensor.dtype);
  json["shape"] = std::vector<std::uint64_t>(tensor.shape.lengths().begin(), tensor.shape.lengths().end());
  json["tensor_bytes"] = tensor.bytes();
  json["storage"] = storage_name(tensor.storage);
  json["mesh"] = json_text(mesh.text());
  json["layout"] = json_text(what.layout.name());
  json["rule"] = json_text(what.layout.rule_text(tensor, placed));
  json["placements"] = Json::object();
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    const Placement& placement = what.layout.rules()[placed.rule].placements[axis];
    json["placements"][json_text(mesh.axis(axis).name)] = placed.dims[axis] == -1 ? "R" : placement.text();
  }
  json["strategy"] = what.params.strategy;
  json["baseline"] = is_baseline(what.params.strategy);
  json["way"] = nullptr;
  json["ways"] = Json::array();
  for (const WayEstimate& w : ways_of(what)) {
    if (w.chosen) json["way"] = way_name(w.way);
    json["ways"].push_back({{"way", way_name(w.way)},
                            {"total_s", w.estimate.total()},
                            {"read_s", w.estimate.read_s},
                            {"fill_s", w.estimate.fill_s},
                            {"copy_s", w.estimate.copy_s}});
  }
  json["ranks"] = mesh.ranks();
  json["per_rank"] = Json::array();  // neighbours that do the same share an entry
  Json last;
  for_each_rank(what, [&](std::uint64_t rank, const ShardPlace& shard, const TensorMoves& moves) {
    Json now = rank_json(shard, moves);
    if (now != last) {
      Json entry = {{"first_rank", rank}, {"last_rank", rank}};
      entry.update(now);
      json["per_rank"].push_back(std::move(entry));
      last = std::move(now);
    }
    json["per_rank"].back()["last_rank"] = rank;
  });
  return dump(json);
}

}  // namespace slabload
