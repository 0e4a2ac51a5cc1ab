#include "report/explain.h"

#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "layout/name_rules.h"
#include "plan/staging.h"
#include "plan/way_choice.h"

namespace slabload {
namespace {

std::string boxes_text(const ShardPlace& shard) {
  if (shard.blocks.empty()) return shard.box.text();
  constexpr std::size_t kMost = 4;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, shard.blocks.size()); ++i)
    out += (i == 0 ? "" : " ") + shard.blocks[i].box.text();
  if (shard.blocks.size() > kMost) out += fmt::format(" and {} more", shard.blocks.size() - kMost);
  return out;
}

// Of one rank and tensor.
struct Moves {
  std::string reads;
  std::uint64_t read_items = 0, requests = 0, gathered = 0, messages_in = 0, messages_out = 0, bytes_in = 0, bytes_out = 0;
  std::map<std::uint64_t, std::uint64_t> broadcasts;  // bytes by root
};

Moves moves_of(const LoadPlan& plan, std::uint32_t number) {
  Moves m;
  for (const Round& round : plan.rounds) {
    for (const ReadItem& read : round.reads) {
      if (read.tensor != number) continue;
      if (++m.read_items <= 2) m.reads += (m.reads.empty() ? "" : " ") + read.box.text();
      m.requests += read.joined ? 0 : 1;
    }
    bool spread = false;
    for (const StagedPart& part : round.spread) {
      if (part.tensor != number) continue;
      spread = true;
      const std::uint64_t size = dtype_size(plan.dtypes[number]);
      const std::uint64_t end = part.offset + part.range.size() * size;
      for (const FillItem& fill : round.fills) {
        if (fill.kind != FillItem::Kind::broadcast || fill.at.space != Space::stage) continue;
        const std::uint64_t from = std::max(part.offset, fill.at.offset);
        const std::uint64_t to = std::min(end, fill.at.offset + fill.bytes);
        if (from < to) m.broadcasts[plan.groups[fill.group][fill.peer]] += to - from;
      }
    }
    for (const FillItem& fill : round.fills) {
      if (fill.tensor != number) continue;
      switch (fill.kind) {
        case FillItem::Kind::all_gather:
          m.gathered += received_bytes(plan, fill);
          break;
        case FillItem::Kind::broadcast:
          if (!spread || fill.at.space == Space::shard) m.broadcasts[plan.groups[fill.group][fill.peer]] += fill.bytes;
          break;
        case FillItem::Kind::send:
          ++m.messages_out;
          m.bytes_out += fill.bytes;
          break;
        case FillItem::Kind::receive:
          ++m.messages_in;
          m.bytes_in += fill.bytes;
          break;
      }
    }
  }
  return m;
}

std::string moves_text(const LoadPlan& plan, const Moves& m) {
  std::string out;
  auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (m.read_items != 0) {
    add(fmt::format("reads {}{} ({})", m.reads, m.read_items > 2 ? " ..." : "",
                    m.requests == 0 ? "in a neighbour's request"
                                    : fmt::format("{} request{}", m.requests, m.requests == 1 ? "" : "s")));
  }
  if (m.gathered != 0) add(fmt::format("all-gather brings {}", format_bytes(m.gathered)));
  std::uint64_t sent = 0, got = 0;
  std::string roots;
  for (const auto& [root, bytes] : m.broadcasts) {
    if (root == plan.rank) {
      sent += bytes;
      continue;
    }
    got += bytes;
    roots += roots.empty() ? fmt::format("rank {}", root) : roots.size() < 40 ? fmt::format(", {}", root) : "";
  }
  if (sent != 0) add(fmt::format("broadcasts {}", format_bytes(sent)));
  if (got != 0) add(fmt::format("gets {} broadcast by {}", format_bytes(got), roots));
  if (m.messages_in != 0) add(fmt::format("receives {} in {} messages", format_bytes(m.bytes_in), m.messages_in));
  if (m.messages_out != 0) add(fmt::format("sends {} in {} messages", format_bytes(m.bytes_out), m.messages_out));
  return out.empty() ? "-" : out;
}

std::string ways_text(const TensorIndex& index, std::uint32_t number, const Layout& layout, const PlanParams& params) {
  if (is_baseline(params.strategy)) return {};
  const std::vector<PlanTensor> tensors = plan_tensors(index, layout, params);
  const PlanTensor& tensor = tensors[number];
  const std::uint64_t round = checked_split(params, converts_any(index, params.cast)).round_bytes;
  const WayChoice choice(index, params, round, layout.mesh().ranks());
  const Way chosen = choice.choose(params.strategy, number, tensor);
  std::string out = fmt::format("  strategy {}: {}\n", params.strategy, way_name(chosen));
  for (Way way : {Way::direct, Way::relay, Way::exchange, Way::spread, Way::reread}) {
    if (!choice.may(number, tensor, way)) continue;
    const Estimate e = choice.estimate(tensor, way);
    out += fmt::format("    {:<9} {:>12.6f} s = read {:.6f} + fill {:.6f} + copy {:.6f}{}\n", way_name(way), e.total(),
                       e.read_s, e.fill_s, e.copy_s, way == chosen ? "  <- chosen" : "");
  }
  return out;
}

}  // namespace

std::string explain_text(const TensorIndex& index, std::uint32_t number, const Layout& layout,
                         const PlanParams& params) {
  const TensorMeta& tensor = index.tensors[number];
  const std::vector<TensorLayout> resolved = layout.resolve(index);
  std::string out = fmt::format("tensor {}\n  dtype {}  shape {}  {} bytes, {}\n  {}\n", shown_name(tensor),
                                dtype_name(tensor.dtype), tensor.shape.text(), tensor.bytes(),
                                storage_name(tensor.storage), layout.rule_text(tensor, resolved[number]));
  out += ways_text(index, number, layout, params);
  auto planner = Planner::make(index, layout, params);
  std::string last;
  std::uint64_t first_rank = 0;
  auto flush = [&](std::uint64_t end) {
    if (last.empty()) return;
    out += fmt::format("  {:<14} {}\n",
                       end - first_rank == 1 ? fmt::format("rank {}", first_rank)
                                             : fmt::format("ranks {}-{}", first_rank, end - 1),
                       last);
  };
  for (std::uint64_t rank = 0; rank < layout.mesh().ranks(); ++rank) {
    const LoadPlan plan = planner->plan(rank);
    const ShardPlace& shard = plan.shards[number];
    std::string text = fmt::format("holds {}, {} elements{}: {}", boxes_text(shard), shard.box.elements(),
                                   shard.empty() ? " (empty)" : "", moves_text(plan, moves_of(plan, number)));
    if (text == last) continue;
    flush(rank);
    last = std::move(text);
    first_rank = rank;
  }
  flush(layout.mesh().ranks());
  return out;
}

}  // namespace slabload
