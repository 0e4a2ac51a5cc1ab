#include "report/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace slabload {
namespace {

// Within single quotes gnuplot takes all but the quote itself as it is.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : printable(text)) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string bench_plot_script(const BenchReport& report) {
  const std::vector<BenchSummary> summaries = summarize(report);
  std::string out = "set terminal svg size 1100,480 noenhanced font 'sans-serif,12' background rgb 'white'\n";
  out += "$time << EOD\n";
  for (const BenchSummary& s : summaries) {
    out += fmt::format("{} {:.6f} {:.6f} {:.6f} {:.6f} {:.6f}\n", s.strategy, s.total_s.mean, s.startup_s.mean, s.read_s.mean,
                       s.fill_s.mean, s.verify_s.mean);
  }
  out += "EOD\n";
  std::map<std::string, std::vector<std::uint64_t>> peaks;
  for (const BenchRun& run : report.runs) {
    std::vector<std::uint64_t>& most = peaks[run.strategy];
    most.resize(std::max(most.size(), run.rss_peaks.size()));
    for (std::size_t rank = 0; rank < run.rss_peaks.size(); ++rank) most[rank] = std::max(most[rank], run.rss_peaks[rank]);
  }
  out += "$memory << EOD\n";
  for (std::size_t rank = 0; rank < report.ranks; ++rank) {
    out += fmt::format("{}", rank);
    for (const BenchSummary& s : summaries) {
      const std::vector<std::uint64_t>& most = peaks[s.strategy];
      out += rank < most.size() ? fmt::format(" {:.3f}", static_cast<double>(most[rank]) / 1e6) : " NaN";
    }
    out += "\n";
  }
  out += "EOD\n";
  out += fmt::format("set multiplot layout 1,2 title {}\n",
                     quoted(fmt::format("{}: {} ranks on {} host{}, layout {}, {} cache", report.checkpoint, report.ranks, report.hosts,
                                        report.hosts == 1 ? "" : "s", report.layout, report.cache)));
  out +=
      "set grid ytics\nset yrange [0:*]\nset offsets graph 0, 0, 0.1, 0\nset key outside bottom center horizontal\n"
      "set style fill solid 0.8\nset style data histograms\nset style histogram clustered gap 1\n"
      "set title 'time by phase (s, mean of the slowest ranks)'\n"
      "plot $time using 2:xtic(1) title 'total', '' using 3 title 'start-up', '' using 4 title 'read', "
      "'' using 5 title 'fill', '' using 6 title 'verify'\n"
      "set title 'peak memory by rank (MB)'\nset xlabel 'rank'\nset xtics autofreq\n";
  out += fmt::format("set xrange [-0.5:{}.5]\n", report.ranks > 0 ? report.ranks - 1 : 0);
  out += "plot ";
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    out += fmt::format("{}$memory using 1:{} with linespoints linewidth 2 title {}", i == 0 ? "" : ", ", i + 2,
                       quoted(summaries[i].strategy));
  }
  return out + "\nunset multiplot\n";
}

}  // namespace slabload
