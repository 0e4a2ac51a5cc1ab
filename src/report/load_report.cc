#include "report/load_report.h"

#include <algorithm>
#include <functional>

#include "base/bytes.h"
#include "base/error.h"
#include "report/json_text.h"

namespace slabload {
namespace {

constexpr PhaseFields kLoadPhases[] = {{"open", &RankStats::open_s, nullptr},
                                       {"plan", &RankStats::plan_s, nullptr},
                                       {"read", &RankStats::read_s, &RankStats::read_bytes},
                                       {"copy", &RankStats::copy_s, &RankStats::copy_bytes},
                                       {"fill", &RankStats::fill_s, &RankStats::fill_bytes},
                                       {"verify", &RankStats::verify_s, &RankStats::verify_bytes},
                                       {"total", &RankStats::total_s, &RankStats::shard_bytes}};

double startup_s(const LoadReport& report) {
  double slowest = 0;
  for (const RankStats& rank : report.per_rank) slowest = std::max(slowest, rank.open_s + rank.plan_s);
  return slowest;
}

std::uint64_t pinned_max(const std::vector<RankStats>& ranks) {
  std::uint64_t most = 0;
  for (const RankStats& rank : ranks) most = std::max(most, rank.ring_slots * rank.ring_slot_bytes);
  return most;
}

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + printable(part);
  return out.empty() ? "none" : out;
}

std::string hidden_text(const LoadReport& report) {
  std::optional<RankShare> least = report.hidden_share_min();
  if (!least) return "-";
  return fmt::format("{:.1f}% of their time behind reads, all ranks together; least {:.1f}% on rank {}",
                     *report.hidden_share() * 100, least->share * 100, least->rank);
}

// Nothing on the host. Each number is the largest of any rank.
std::string device_lines(const LoadReport& report) {
  std::uint64_t device = largest_of(report.per_rank, &RankStats::device_peak);
  std::uint64_t fabric = largest_of(report.per_rank, &RankStats::fabric_bytes);
  if (device == 0 && fabric == 0) return "";
  return figure_line("peak device memory per rank",
                     fmt::format("{} of shards and scratch, {} of the fabric besides", format_bytes(device),
                                 format_bytes(fabric))) +
         figure_line("pinned memory per rank", format_bytes(pinned_max(report.per_rank)));
}

}  // namespace

std::uint64_t LoadReport::read_bytes() const {
  return sum_of(per_rank, &RankStats::read_bytes);
}
std::uint64_t LoadReport::read_requests() const {
  return sum_of(per_rank, &RankStats::read_requests);
}
std::uint64_t LoadReport::fill_bytes() const {
  return sum_of(per_rank, &RankStats::fill_bytes);
}

double LoadReport::read_amplification() const {
  if (selected_bytes == 0) return 1;
  return static_cast<double>(read_bytes()) / static_cast<double>(selected_bytes);
}

double LoadReport::read_share_max_over_mean() const {
  return max_over_mean(per_rank, &RankStats::read_bytes);
}

std::uint64_t LoadReport::staging_peak_max() const {
  return largest_of(per_rank, &RankStats::staging_peak);
}
std::uint64_t LoadReport::shard_bytes_max() const {
  return largest_of(per_rank, &RankStats::shard_bytes);
}
std::uint64_t LoadReport::rss_peak_max() const {
  return largest_of(per_rank, &RankStats::rss_peak);
}

std::uint64_t LoadReport::rss_peak_rank() const {
  return largest_rank(per_rank, &RankStats::rss_peak);
}

double LoadReport::total_s() const {
  return longest_of(per_rank, &RankStats::total_s);
}

std::optional<double> LoadReport::hidden_share() const {
  double moving_s = 0, hidden_s = 0;
  for (const RankStats& rank : per_rank) {
    moving_s += rank.moving_s;
    hidden_s += rank.hidden_s;
  }
  if (!(moving_s > 0)) return std::nullopt;
  return hidden_s / moving_s;
}

std::optional<RankShare> LoadReport::hidden_share_min() const {
  std::optional<RankShare> least;
  for (std::size_t i = 0; i < per_rank.size(); ++i) {
    if (!(per_rank[i].moving_s > 0)) continue;
    double share = per_rank[i].hidden_s / per_rank[i].moving_s;
    if (!least || share < least->share) least = RankShare{share, i};
  }
  return least;
}

std::vector<PhaseSummary> LoadReport::phases() const {
  return summarise_phases(per_rank, kLoadPhases);
}

std::string to_text(const LoadReport& report) {
  std::string out;
  auto head = [&](const char* name, const std::string& value) {
    out += fmt::format("# {:<11} {}\n", name, value);
  };
  head("slabload", report.version);
  head("checkpoint", printable(report.checkpoint));
  head("ranks", fmt::format("{} on {} host{}, {} per node", report.ranks, report.hosts,
                            report.hosts == 1 ? "" : "s", report.ranks_per_node));
  head("mesh", report.mesh);
  head("layout", printable(report.layout));
  head("strategy", fmt::format("{}{}{}{}", report.strategy, report.baseline ? " (baseline)" : "",
                               report.strategy_why.empty() ? "" : ": ", report.strategy_why));
  head("device", report.device);
  head("fabric", report.fabric);
  head("io", report.io);
  head("hints", join(report.hints));
  for (const std::string& note : report.notes) head("note", printable(note));

  out += "#\n";
  out += phase_table(report.phases());
  out += "#\n";

  auto figure = [&](const char* name, const std::string& value) { out += figure_line(name, value); };
  figure("selected", fmt::format("{} ({} B) in {} tensors", format_bytes(report.selected_bytes),
                                 report.selected_bytes, report.tensors));
  figure("start-up",
         fmt::format("{:.4f} s (open + plan, slowest rank); of plan, making memory present {:.4f} s",
                     startup_s(report), longest_of(report.per_rank, &RankStats::memory_s)));
  figure("read amplification", fmt::format("{:.3f}", report.read_amplification()));
  figure("read requests", fmt::format("{}", report.read_requests()));
  figure("largest read share / mean", fmt::format("{:.3f}", report.read_share_max_over_mean()));
  figure("rounds", fmt::format("{}", report.rounds));
  figure("copies and fills hidden", hidden_text(report));
  figure("waiting for slots and fills",
         fmt::format("{:.4f} s (slowest rank)", longest_of(report.per_rank, &RankStats::wait_s)));
  if (report.slots > 0)
    figure("slots of the staging", fmt::format("{} of {}", report.slots, format_binary(report.slot_bytes)));
  figure("peak staging per rank", fmt::format("{} of {}", format_bytes(report.staging_peak_max()),
                                              format_binary(report.staging_budget)));
  figure("shards, largest rank", format_bytes(report.shard_bytes_max()));
  figure("peak memory per rank",
         fmt::format("{} on rank {}", format_bytes(report.rss_peak_max()), report.rss_peak_rank()));
  if (!report.per_rank.empty()) figure("peak memory of rank 0", format_bytes(report.per_rank[0].rss_peak));
  out += device_lines(report);
  figure("time over the bound",
         report.bound_s > 0
             ? fmt::format("{:.2f} (bound {:.4f} s)", report.total_s() / report.bound_s, report.bound_s)
             : "no bound: no bandwidth was given");
  figure("tensors verified", fmt::format("{} of {}{}", report.tensors_verified, report.tensors,
                                         report.tensors_unverified == 0
                                             ? ""
                                             : fmt::format(" ({} unverified)", report.tensors_unverified)));
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < report.wrong.size() && i < kShown; ++i) {
    const WrongTensor& wrong = report.wrong[i];
    out += fmt::format("# wrong {}: crc64 {}, expected {}\n", printable(wrong.name), hex64(wrong.found),
                       hex64(wrong.expected));
  }
  if (report.wrong.size() > kShown) out += fmt::format("# wrong: {} more\n", report.wrong.size() - kShown);
  return out + fmt::format("#wrong {}\n", report.wrong.size());
}

std::string to_json(const LoadReport& report) {
  auto texts = [](const std::vector<std::string>& list) {
    Json out = Json::array();
    for (const std::string& text : list) out.push_back(json_text(text));
    return out;
  };
  Json json;
  json["schema_version"] = 1;
  json["version"] = json_text(report.version);
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
  json["io"] = json_text(report.io);
  json["hints"] = texts(report.hints);
  json["tensors"] = report.tensors;
  json["tensors_verified"] = report.tensors_verified;
  json["tensors_unverified"] = report.tensors_unverified;
  json["wrong"] = report.wrong.size();
  json["selected_bytes"] = report.selected_bytes;
  json["read_bytes"] = report.read_bytes();
  json["read_amplification"] = report.read_amplification();
  json["read_requests"] = report.read_requests();
  json["read_share_max_over_mean"] = report.read_share_max_over_mean();
  json["fill_bytes"] = report.fill_bytes();
  json["rounds"] = report.rounds;
  json["staging_budget_bytes"] = report.staging_budget;
  json["staging_peak_bytes"] = report.staging_peak_max();
  json["shard_bytes_max"] = report.shard_bytes_max();
  json["rss_peak_bytes_max"] = report.rss_peak_max();
  json["rss_peak_rank"] = report.rss_peak_rank();
  json["rss_peak_bytes"] = Json::array();
  for (const RankStats& rank : report.per_rank) json["rss_peak_bytes"].push_back(rank.rss_peak);
  json["device_peak_bytes_max"] = largest_of(report.per_rank, &RankStats::device_peak);
  json["fabric_bytes_max"] = largest_of(report.per_rank, &RankStats::fabric_bytes);
  json["pinned_bytes_max"] = pinned_max(report.per_rank);
  json["staging_slots"] = report.slots;
  json["staging_slot_bytes"] = report.slot_bytes;
  std::optional<double> hidden = report.hidden_share();
  std::optional<RankShare> least = report.hidden_share_min();
  json["hidden_share"] = hidden ? Json(*hidden) : Json(nullptr);
  json["hidden_share_min"] = least ? Json(least->share) : Json(nullptr);
  json["hidden_share_min_rank"] = least ? Json(least->rank) : Json(nullptr);
  json["moving_s_max"] = longest_of(report.per_rank, &RankStats::moving_s);
  json["hidden_s_max"] = longest_of(report.per_rank, &RankStats::hidden_s);
  json["wait_s_max"] = longest_of(report.per_rank, &RankStats::wait_s);
  json["total_s"] = report.total_s();
  // Unknown is null, not 0: a bound of zero seconds would be a claim.
  json["bound_s"] = report.bound_s > 0 ? Json(report.bound_s) : Json(nullptr);
  json["over_bound"] = report.bound_s > 0 ? Json(report.total_s() / report.bound_s) : Json(nullptr);
  json["phases"] = phase_list(report.phases());
  json["startup_s"] = startup_s(report);
  json["memory_s"] = longest_of(report.per_rank, &RankStats::memory_s);
  json["datasets_opened"] = sum_of(report.per_rank, &RankStats::datasets_opened);
  json["notes"] = texts(report.notes);
  json["wrong_tensors"] = Json::array();
  for (const WrongTensor& wrong : report.wrong) {
    json["wrong_tensors"].push_back({{"name", json_text(wrong.name)},
                                     {"expected", hex64(wrong.expected)},
                                     {"found", hex64(wrong.found)}});
  }
  return dump(json);
}

}  // namespace slabload
