#include "report/phase_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace slabload {

std::vector<PhaseSummary> summarise_phases(const std::vector<RankStats>& ranks, std::span<const PhaseFields> fields) {
  std::vector<PhaseSummary> out;
  for (const PhaseFields& field : fields) {
    PhaseSummary phase;
    phase.name = field.name;
    phase.moves = field.bytes != nullptr;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      double seconds = ranks[i].*field.seconds;
      std::uint64_t bytes = field.bytes == nullptr ? 0 : ranks[i].*field.bytes;
      phase.min_s = i == 0 ? seconds : std::min(phase.min_s, seconds);
      phase.max_s = i == 0 ? seconds : std::max(phase.max_s, seconds);
      phase.mean_s += seconds / static_cast<double>(ranks.size());
      phase.bytes += bytes;
      phase.bytes_min = i == 0 ? bytes : std::min(phase.bytes_min, bytes);
      phase.bytes_max = i == 0 ? bytes : std::max(phase.bytes_max, bytes);
    }
    out.push_back(std::move(phase));
  }
  return out;
}

std::string phase_table(const std::vector<PhaseSummary>& phases) {
  std::string out = fmt::format("# {:<8} {:>10} {:>10} {:>10} {:>15} {:>15} {:>15} {:>9}\n", "phase", "min", "mean",
                                "max", "bytes", "bytes min", "bytes max", "rate");
  out += fmt::format("# {:<8} {:>10} {:>10} {:>10} {:>15} {:>15} {:>15} {:>9}\n", "", "(s)", "(s)", "(s)", "(B)",
                     "(B)", "(B)", "(GB/s)");
  for (const PhaseSummary& phase : phases) {
    out += fmt::format("  {:<8} {:>10.4f} {:>10.4f} {:>10.4f}", phase.name, phase.min_s, phase.mean_s, phase.max_s);
    if (!phase.moves) {
      out += fmt::format(" {:>15} {:>15} {:>15} {:>9}\n", "-", "-", "-", "-");
      continue;
    }
    const bool rated = phase.max_s > 0 && phase.bytes > 0;
    out += fmt::format(" {:>15} {:>15} {:>15} {:>9}\n", phase.bytes, phase.bytes_min, phase.bytes_max,
                       rated ? fmt::format("{:.2f}", static_cast<double>(phase.bytes) / phase.max_s / 1e9) : "-");
  }
  return out;
}

Json phase_list(const std::vector<PhaseSummary>& phases) {
  Json list = Json::array();
  for (const PhaseSummary& phase : phases) {
    list.push_back({{"name", phase.name},
                    {"min_s", phase.min_s},
                    {"mean_s", phase.mean_s},
                    {"max_s", phase.max_s},
                    {"bytes", phase.bytes},
                    {"bytes_min", phase.bytes_min},
                    {"bytes_max", phase.bytes_max}});
  }
  return list;
}

std::uint64_t sum_of(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field) {
  std::uint64_t total = 0;
  for (const RankStats& rank : ranks) total += rank.*field;
  return total;
}

std::uint64_t largest_of(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field) {
  std::uint64_t most = 0;
  for (const RankStats& rank : ranks) most = std::max(most, rank.*field);
  return most;
}

double longest_of(const std::vector<RankStats>& ranks, double RankStats::*field) {
  double most = 0;
  for (const RankStats& rank : ranks) most = std::max(most, rank.*field);
  return most;
}

double max_over_mean(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field) {
  const std::uint64_t total = sum_of(ranks, field);
  if (total == 0) return 1;
  return static_cast<double>(largest_of(ranks, field)) / (static_cast<double>(total) / static_cast<double>(ranks.size()));
}

std::uint64_t largest_rank(const std::vector<RankStats>& ranks, std::uint64_t RankStats::*field) {
  auto most = std::max_element(ranks.begin(), ranks.end(),
                               [&](const RankStats& a, const RankStats& b) { return a.*field < b.*field; });
  return static_cast<std::uint64_t>(most - ranks.begin());
}

std::string figure_line(const char* name, const std::string& value) {
  return fmt::format("# {:<28} {}\n", name, value);
}

}  // namespace slabload
