#include "report/bench_report.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "plan/planner.h"
#include "report/json_text.h"

namespace slabload {
namespace {

std::string label(const BenchSummary& summary) {
  return summary.strategy + (summary.baseline ? " (baseline)" : "");
}

const BenchSummary* best_of(const std::vector<BenchSummary>& summaries) {
  auto best = std::max_element(
      summaries.begin(), summaries.end(),
      [](const BenchSummary& a, const BenchSummary& b) { return a.gbps.mean < b.gbps.mean; });
  return best == summaries.end() ? nullptr : &*best;
}

// Nothing if the other one has no speed to divide by.
std::optional<double> ratio(const BenchSummary& best, const BenchSummary& other) {
  if (!(other.gbps.mean > 0)) return std::nullopt;
  return best.gbps.mean / other.gbps.mean;
}

std::string best_line(const std::vector<BenchSummary>& summaries) {
  const BenchSummary* best = best_of(summaries);
  if (best == nullptr) return "# best: nothing was measured\n";
  std::string out = fmt::format("# best: {} at {:.3f} GB/s", label(*best), best->gbps.mean);
  const char* separator = "; ";
  for (const BenchSummary& other : summaries) {
    if (&other == best) continue;
    auto factor = ratio(*best, other);
    out += separator +
           (factor ? fmt::format("{:.2f} x {}", *factor, label(other)) : "no ratio to " + label(other));
    separator = ", ";
  }
  return out + "\n";
}

Json spread_json(const Spread& spread) {
  return {{"max", spread.max}, {"min", spread.min}, {"mean", spread.mean}, {"stddev", spread.stddev}};
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

double BenchRun::gbps() const {
  double seconds = total_s - startup_s;
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

Spread spread_of(const std::vector<double>& values) {
  Spread out;
  if (values.empty()) return out;
  auto n = static_cast<double>(values.size());
  out.max = *std::max_element(values.begin(), values.end());
  out.min = *std::min_element(values.begin(), values.end());
  for (double value : values) out.mean += value / n;
  if (values.size() > 1) {
    double squares = 0;
    for (double value : values) squares += (value - out.mean) * (value - out.mean);
    out.stddev = std::sqrt(squares / (n - 1));
  }
  return out;
}

std::vector<BenchSummary> summarize(const BenchReport& report) {
  std::vector<BenchSummary> out;
  for (const BenchRun& first : report.runs) {
    bool seen =
        std::any_of(out.begin(), out.end(), [&](const auto& s) { return s.strategy == first.strategy; });
    if (seen) continue;
    BenchSummary summary;
    summary.strategy = first.strategy;
    summary.baseline = is_baseline(first.strategy);
    std::vector<double> gbps, ceiling, total, startup, read, fill, verify;
    for (const BenchRun& run : report.runs) {
      if (run.strategy != first.strategy) continue;
      ++summary.runs;
      gbps.push_back(run.gbps());
      if (run.ceiling_gbps > 0) ceiling.push_back(run.ceiling_gbps);
      total.push_back(run.total_s);
      startup.push_back(run.startup_s);
      read.push_back(run.read_s);
      fill.push_back(run.fill_s);
      verify.push_back(run.verify_s);
      summary.bytes = std::max(summary.bytes, run.bytes);
      summary.read_bytes = std::max(summary.read_bytes, run.read_bytes);
      summary.fill_bytes = std::max(summary.fill_bytes, run.fill_bytes);
      summary.rss_peak_max = std::max(summary.rss_peak_max, run.rss_peak_max);
      summary.rss_peak_rank0 = std::max(summary.rss_peak_rank0, run.rss_peak_rank0);
      if (run.resident_share) {
        summary.resident_share = std::max(summary.resident_share.value_or(0), *run.resident_share);
      }
    }
    summary.gbps = spread_of(gbps);
    summary.total_s = spread_of(total);
    summary.startup_s = spread_of(startup);
    summary.read_s = spread_of(read);
    summary.fill_s = spread_of(fill);
    summary.verify_s = spread_of(verify);
    if (!ceiling.empty()) summary.ceiling_share = summary.gbps.mean / spread_of(ceiling).mean;
    out.push_back(std::move(summary));
  }
  return out;
}

std::string to_text(const BenchReport& report) {
  std::string out;
  auto head = [&](const char* name, const std::string& value) {
    out += fmt::format("# {:<11} {}\n", name, value);
  };
  head("slabload", report.version + " bench");
  head("checkpoint", printable(report.checkpoint));
  head("ranks", fmt::format("{} on {} host{}", report.ranks, report.hosts, report.hosts == 1 ? "" : "s"));
  head("mesh", report.mesh);
  head("layout", printable(report.layout));
  head("device", report.device);
  head("fabric", report.fabric);
  head("io", report.io);
  head("cache", report.cache);
  head("warmup",
       fmt::format("{} unmeasured run{} of each strategy", report.warmup, report.warmup == 1 ? "" : "s"));
  for (const std::string& note : report.notes) head("note", printable(note));
  std::vector<BenchSummary> summaries = summarize(report);

  out += "#\n# speed: bytes of the selected tensors over (total - start-up)\n";
  constexpr auto kSpeedRow = "{} {:<26} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n";
  auto speed_row = [&](const auto&... cells) { out += fmt::format(fmt::runtime(kSpeedRow), cells...); };
  speed_row("#", "strategy", "runs", "max", "min", "mean", "stddev", "share", "read", "fill", "resident");
  speed_row("#", "", "", "(GB/s)", "(GB/s)", "(GB/s)", "(GB/s)", "of raw", "(GB)", "(GB)", "");
  for (const BenchSummary& s : summaries) {
    auto number = [](double value) { return fmt::format("{:.3f}", value); };
    speed_row(" ", label(s), s.runs, number(s.gbps.max), number(s.gbps.min), number(s.gbps.mean),
              number(s.gbps.stddev), s.ceiling_share ? number(*s.ceiling_share) : "-",
              number(static_cast<double>(s.read_bytes) / 1e9),
              number(static_cast<double>(s.fill_bytes) / 1e9),
              s.resident_share ? number(*s.resident_share) : "-");
  }

  out += "#\n# time, and peak memory of any run\n";
  constexpr auto kTimeRow = "{} {:<26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}\n";
  auto time_row = [&](const auto&... cells) { out += fmt::format(fmt::runtime(kTimeRow), cells...); };
  time_row("#", "strategy", "max", "min", "mean", "stddev", "start-up", "read", "fill", "verify", "rank 0",
           "largest");
  time_row("#", "", "(s)", "(s)", "(s)", "(s)", "mean (s)", "mean (s)", "mean (s)", "mean (s)", "(MB)",
           "(MB)");
  for (const BenchSummary& s : summaries) {
    auto number = [](double value) { return fmt::format("{:.4f}", value); };
    auto megabytes = [](std::uint64_t bytes) {
      return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
    };
    time_row(" ", label(s), number(s.total_s.max), number(s.total_s.min), number(s.total_s.mean),
             number(s.total_s.stddev), number(s.startup_s.mean), number(s.read_s.mean), number(s.fill_s.mean),
             number(s.verify_s.mean), megabytes(s.rss_peak_rank0), megabytes(s.rss_peak_max));
  }
  return out + "#\n" + best_line(summaries);
}

std::string to_json(const BenchReport& report) {
  Json json;
  json["schema_version"] = 1;
  json["version"] = json_text(report.version);
  json["checkpoint"] = json_text(report.checkpoint);
  json["ranks"] = report.ranks;
  json["hosts"] = report.hosts;
  json["mesh"] = json_text(report.mesh);
  json["layout"] = json_text(report.layout);
  json["device"] = json_text(report.device);
  json["fabric"] = json_text(report.fabric);
  json["io"] = json_text(report.io);
  json["cache"] = json_text(report.cache);
  json["warmup"] = report.warmup;
  json["notes"] = Json::array();
  for (const std::string& note : report.notes) json["notes"].push_back(json_text(note));

  std::vector<BenchSummary> summaries = summarize(report);
  json["strategies"] = Json::array();
  for (const BenchSummary& s : summaries) {
    json["strategies"].push_back({{"strategy", json_text(s.strategy)},
                                  {"baseline", s.baseline},
                                  {"runs", s.runs},
                                  {"gbps", spread_json(s.gbps)},
                                  {"ceiling_share", optional_json(s.ceiling_share)},
                                  {"total_s", spread_json(s.total_s)},
                                  {"startup_s", spread_json(s.startup_s)},
                                  {"read_s", spread_json(s.read_s)},
                                  {"fill_s", spread_json(s.fill_s)},
                                  {"verify_s", spread_json(s.verify_s)},
                                  {"bytes", s.bytes},
                                  {"read_bytes", s.read_bytes},
                                  {"fill_bytes", s.fill_bytes},
                                  {"rss_peak_rank0_bytes", s.rss_peak_rank0},
                                  {"rss_peak_max_bytes", s.rss_peak_max},
                                  {"resident_share", optional_json(s.resident_share)}});
  }
  json["runs"] = Json::array();
  for (const BenchRun& run : report.runs) {
    json["runs"].push_back({{"strategy", json_text(run.strategy)},
                            {"repeat", run.repeat},
                            {"gbps", run.gbps()},
                            {"total_s", run.total_s},
                            {"startup_s", run.startup_s},
                            {"read_s", run.read_s},
                            {"fill_s", run.fill_s},
                            {"verify_s", run.verify_s},
                            {"bytes", run.bytes},
                            {"read_bytes", run.read_bytes},
                            {"fill_bytes", run.fill_bytes},
                            {"rss_peak_rank0_bytes", run.rss_peak_rank0},
                            {"rss_peak_max_bytes", run.rss_peak_max},
                            {"ceiling_gbps", run.ceiling_gbps > 0 ? Json(run.ceiling_gbps) : Json(nullptr)},
                            {"resident_share", optional_json(run.resident_share)}});
  }
  if (const BenchSummary* best = best_of(summaries)) {
    json["best"] = json_text(best->strategy);
    json["best_over"] = Json::object();
    for (const BenchSummary& other : summaries) {
      if (&other != best) json["best_over"][json_text(other.strategy)] = optional_json(ratio(*best, other));
    }
  }
  return dump(json);
}

std::string to_csv(const BenchReport& report) {
  std::string out =
      "strategy,baseline,repeat,gbps,total_s,startup_s,read_s,fill_s,verify_s,bytes,read_bytes,fill_bytes,"
      "rss_peak_rank0_bytes,rss_peak_max_bytes,ceiling_gbps,resident_share\n";
  for (const BenchRun& run : report.runs) {
    out += fmt::format("{},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{},{},{},{},{},{},{}\n",
                       run.strategy, is_baseline(run.strategy) ? 1 : 0, run.repeat, run.gbps(), run.total_s,
                       run.startup_s, run.read_s, run.fill_s, run.verify_s, run.bytes, run.read_bytes,
                       run.fill_bytes, run.rss_peak_rank0, run.rss_peak_max,
                       run.ceiling_gbps > 0 ? fmt::format("{:.6f}", run.ceiling_gbps) : "",
                       run.resident_share ? fmt::format("{:.6f}", *run.resident_share) : "");
  }
  return out;
}

}  // namespace slabload
