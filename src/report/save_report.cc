#include "report/save_report.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"

namespace slabload {
namespace {

constexpr PhaseFields kSavePhases[] = {{"create", &RankStats::create_s, nullptr},
                                       {"plan", &RankStats::plan_s, nullptr},
                                       {"copy", &RankStats::copy_s, &RankStats::copy_bytes},
                                       {"fill", &RankStats::fill_s, &RankStats::fill_bytes},
                                       {"verify", &RankStats::verify_s, &RankStats::verify_bytes},
                                       {"write", &RankStats::write_s, &RankStats::write_bytes},
                                       {"commit", &RankStats::commit_s, nullptr},
                                       {"total", &RankStats::total_s, &RankStats::write_bytes}};

}  // namespace

double SaveReport::write_amplification() const {
  if (tensor_bytes == 0) return 1;
  return static_cast<double>(sum_of(per_rank, &RankStats::write_bytes)) / static_cast<double>(tensor_bytes);
}

std::vector<PhaseSummary> SaveReport::phases() const {
  return summarise_phases(per_rank, kSavePhases);
}

std::string to_text(const SaveReport& report) {
  std::string out;
  auto head = [&](const char* name, const std::string& value) {
    out += fmt::format("# {:<11} {}\n", name, value);
  };
  head("slabload", report.version);
  head("source", printable(report.source));
  head("checkpoint", printable(report.checkpoint));
  head("ranks", fmt::format("{} on {} host{}, {} per node", report.ranks, report.hosts, report.hosts == 1 ? "" : "s",
                            report.ranks_per_node));
  head("mesh", report.mesh);
  head("layout", printable(report.layout));
  head("strategy", fmt::format("{}: {}", report.strategy, report.strategy_why));
  head("device", report.device);
  head("fabric", report.fabric);
  head("storage", report.storage);
  for (const std::string& note : report.notes) head("note", printable(note));
  out += "#\n" + phase_table(report.phases()) + "#\n";
  auto figure = [&](const char* name, const std::string& value) { out += figure_line(name, value); };
  figure("tensors", fmt::format("{} of {} ({} B)", report.tensors, format_bytes(report.tensor_bytes), report.tensor_bytes));
  figure("file", fmt::format("{} ({} B)", format_bytes(report.file_bytes), report.file_bytes));
  figure("getting the shards", fmt::format("{:.4f} s", report.source_s));
  figure("write amplification", fmt::format("{:.3f}", report.write_amplification()));
  figure("write requests", fmt::format("{}", sum_of(report.per_rank, &RankStats::write_requests)));
  figure("largest write share / mean", fmt::format("{:.3f}", max_over_mean(report.per_rank, &RankStats::write_bytes)));
  figure("rounds", fmt::format("{}", report.rounds));
  figure("peak staging per rank", fmt::format("{} of {}", format_bytes(largest_of(report.per_rank, &RankStats::staging_peak)),
                                              format_binary(report.staging_budget)));
  figure("shards, largest rank", format_bytes(largest_of(report.per_rank, &RankStats::shard_bytes)));
  figure("peak memory per rank", fmt::format("{} on rank {}", format_bytes(largest_of(report.per_rank, &RankStats::rss_peak)),
                                             largest_rank(report.per_rank, &RankStats::rss_peak)));
  figure("checksums stored",
         fmt::format("{}{}", report.tensors, report.reread ? ", and the file was read again and compared" : ""));
  return out;
}

std::string to_json(const SaveReport& report) {
  Json json;
  json["schema_version"] = 1;
  json["version"] = json_text(report.version);
  json["source"] = json_text(report.source);
  json["checkpoint"] = json_text(report.checkpoint);
  json["ranks"] = report.ranks;
  json["hosts"] = report.hosts;
  json["ranks_per_node"] = report.ranks_per_node;
  json["mesh"] = json_text(report.mesh);
  json["layout"] = json_text(report.layout);
  json["strategy"] = json_text(report.strategy);
  json["strategy_why"] = json_text(report.strategy_why);
  json["device"] = json_text(report.device);
  json["fabric"] = json_text(report.fabric);
  json["storage"] = json_text(report.storage);
  json["tensors"] = report.tensors;
  json["tensor_bytes"] = report.tensor_bytes;
  json["file_bytes"] = report.file_bytes;
  json["source_s"] = report.source_s;
  json["write_bytes"] = sum_of(report.per_rank, &RankStats::write_bytes);
  json["write_amplification"] = report.write_amplification();
  json["write_requests"] = sum_of(report.per_rank, &RankStats::write_requests);
  json["write_share_max_over_mean"] = max_over_mean(report.per_rank, &RankStats::write_bytes);
  json["fill_bytes"] = sum_of(report.per_rank, &RankStats::fill_bytes);
  json["rounds"] = report.rounds;
  json["staging_budget_bytes"] = report.staging_budget;
  json["staging_peak_bytes"] = largest_of(report.per_rank, &RankStats::staging_peak);
  json["shard_bytes_max"] = largest_of(report.per_rank, &RankStats::shard_bytes);
  json["rss_peak_bytes_max"] = largest_of(report.per_rank, &RankStats::rss_peak);
  json["rss_peak_rank"] = largest_rank(report.per_rank, &RankStats::rss_peak);
  json["rss_peak_bytes"] = Json::array();
  for (const RankStats& rank : report.per_rank) json["rss_peak_bytes"].push_back(rank.rss_peak);
  json["reread"] = report.reread;
  json["total_s"] = report.total_s();
  json["phases"] = phase_list(report.phases());
  json["notes"] = Json::array();
  for (const std::string& note : report.notes) json["notes"].push_back(json_text(note));
  return dump(json);
}

}  // namespace slabload
