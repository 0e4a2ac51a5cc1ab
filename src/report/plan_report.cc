#include "report/plan_report.h"

#include "base/bytes.h"
#include "base/error.h"
#include "report/json_text.h"
#include "report/seconds_text.h"

namespace slabload {
namespace {

std::string row(const char* name, const RankSpread& spread, std::uint64_t ranks, bool bytes) {
  auto show = [&](double value) {
    return bytes ? format_bytes(static_cast<std::uint64_t>(value)) : fmt::format("{:.1f}", value);
  };
  return fmt::format("  {:<22} {:>12} {:>12} {:>12} {:>10} {:>14}\n", name,
                     show(static_cast<double>(spread.min)), show(spread.mean(ranks)),
                     show(static_cast<double>(spread.max)), spread.max_rank,
                     show(static_cast<double>(spread.sum)));
}

}  // namespace

std::string to_text(const PlanReport& report) {
  const PlanSummary& s = report.summary;
  std::string out =
      fmt::format("# slabload {} plan\n# checkpoint {}\n# mesh {}  layout {}  ranks {}\n# strategy {}: {}\n",
                  report.version, printable(report.checkpoint), report.mesh, printable(report.layout),
                  s.ranks, report.strategy, s.why);
  for (const std::string& note : report.notes) out += "# " + note + "\n";
  out += "#\n";
  out += fmt::format("  {:<22} {:>12} {:>12} {:>12} {:>10} {:>14}\n", "per rank", "min", "mean", "max",
                     "max rank", "all ranks");
  out += row("read", s.read_bytes, s.ranks, true);
  out += row("read requests", s.requests, s.ranks, false);
  out += row("received", s.received_bytes, s.ranks, true);
  out += row("sent", s.sent_bytes, s.ranks, true);
  out += row("shards", s.shard_bytes, s.ranks, true);
  out += row("staging", s.staging_bytes, s.ranks, true);
  out += row("peak (shards+staging)", s.peak_bytes, s.ranks, true);
  if (report.ranks_per_node > 1) {
    out += row("read by a node", s.node_read_bytes, s.nodes, true);
    out += row("received by a node", s.node_fill_bytes, s.nodes, true);
  }
  if (report.keep_ranks) {
    out += fmt::format(
        "#\n  {:>8} {:>16} {:>10} {:>16} {:>16} {:>16}\n  {:>8} {:>16} {:>10} {:>16} {:>16} {:>16}\n", "rank",
        "read", "requests", "received", "sent", "peak", "", "(B)", "", "(B)", "(B)", "(B)");
    for (std::size_t rank = 0; rank < report.per_rank.size(); ++rank) {
      const RankFigures& f = report.per_rank[rank];
      out += fmt::format("  {:>8} {:>16} {:>10} {:>16} {:>16} {:>16}\n", rank, f.read_bytes, f.requests,
                         f.received_bytes, f.sent_bytes, f.peak_bytes());
    }
  }
  out += "#\n";
  out += fmt::format("# tensors {}  selected {} ({} bytes)\n", s.tensors, format_bytes(s.selected_bytes),
                     s.selected_bytes);
  out += fmt::format("# read amplification {:.3f}\n", s.amplification());
  out += fmt::format("# largest read share over the mean {:.4f}\n", s.share_max_over_mean());
  out += fmt::format("# rounds {}  staging budget {}\n", s.rounds, format_binary(report.staging_budget));
  if (!report.estimates.empty()) {
    out += fmt::format("# estimates with {}:\n", report.costs);
    for (const StrategyEstimate& e : report.estimates) {
      out += fmt::format("#   {:<16} {:>10} = read {} + fill {} + copy {}{}\n", e.strategy,
                         seconds_text(e.estimate.total()), seconds_text(e.estimate.read_s),
                         seconds_text(e.estimate.fill_s), seconds_text(e.estimate.copy_s),
                         e.baseline ? "  (baseline, rough)" : "");
    }
  }
  out += report.bound_s > 0 ? fmt::format("# time bound {}\n", seconds_text(report.bound_s))
                            : "# time bound unknown (give --cost fs=5GB/s,fs_per_rank=1GB/s,fabric=50GB/s)\n";
  out += s.validated ? "# plan valid: every element arrives once, every byte is read as often as stated, "
                       "sends match receives\n"
                     : "# plan not validated\n";
  return out;
}

std::string to_json(const PlanReport& report) {
  const PlanSummary& s = report.summary;
  auto spread = [&](const RankSpread& v) {
    return Json{
        {"min", v.min}, {"mean", v.mean(s.ranks)}, {"max", v.max}, {"max_rank", v.max_rank}, {"sum", v.sum}};
  };
  Json json;
  json["schema_version"] = 1;
  json["version"] = report.version;
  json["checkpoint"] = json_text(report.checkpoint);
  json["mesh"] = report.mesh;
  json["layout"] = json_text(report.layout);
  json["ranks"] = s.ranks;
  json["strategy"] = report.strategy;
  json["strategy_why"] = s.why;
  json["notes"] = Json::array();
  for (const std::string& note : report.notes) json["notes"].push_back(json_text(note));
  json["tensors"] = s.tensors;
  json["selected_bytes"] = s.selected_bytes;
  json["read_amplification"] = s.amplification();
  json["read_share_max_over_mean"] = s.share_max_over_mean();
  json["rounds"] = s.rounds;
  json["staging_budget_bytes"] = report.staging_budget;
  json["read_bytes"] = spread(s.read_bytes);
  json["read_requests"] = spread(s.requests);
  json["received_bytes"] = spread(s.received_bytes);
  json["sent_bytes"] = spread(s.sent_bytes);
  json["shard_bytes"] = spread(s.shard_bytes);
  json["staging_bytes"] = spread(s.staging_bytes);
  json["peak_bytes"] = spread(s.peak_bytes);
  json["ranks_per_node"] = report.ranks_per_node;
  json["nodes"] = s.nodes;
  json["node_read_bytes"] = {{"min", s.node_read_bytes.min}, {"max", s.node_read_bytes.max}};
  json["node_received_bytes"] = {{"min", s.node_fill_bytes.min}, {"max", s.node_fill_bytes.max}};
  json["costs"] = report.costs;
  json["estimates"] = Json::array();
  for (const StrategyEstimate& e : report.estimates) {
    json["estimates"].push_back({{"strategy", e.strategy},
                                 {"baseline", e.baseline},
                                 {"total_s", e.estimate.total()},
                                 {"read_s", e.estimate.read_s},
                                 {"fill_s", e.estimate.fill_s},
                                 {"copy_s", e.estimate.copy_s}});
  }
  json["bound_s"] = report.bound_s > 0 ? Json(report.bound_s) : Json(nullptr);
  json["validated"] = s.validated;
  json["per_rank"] = Json::array();
  for (const RankFigures& f : report.per_rank) {
    json["per_rank"].push_back({{"read_bytes", f.read_bytes},
                                {"read_requests", f.requests},
                                {"received_bytes", f.received_bytes},
                                {"sent_bytes", f.sent_bytes},
                                {"shard_bytes", f.shard_bytes},
                                {"staging_bytes", f.staging_bytes}});
  }
  return dump(json);
}

}  // namespace slabload
