// The report of a bench: every run, and statistics per strategy as IOR prints them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace slabload {

// One measured run of one strategy.
struct BenchRun {
  std::string strategy;
  std::uint64_t repeat = 0;  // 0, 1, ... within the strategy
  double total_s = 0;        // slowest rank
  double startup_s = 0;      // part of total_s: all that is not moving data (open and plan)
  double read_s = 0, fill_s = 0, verify_s = 0;
  std::uint64_t bytes = 0;         // of the selected tensors, each counted once
  std::uint64_t read_bytes = 0;    // over all ranks
  std::uint64_t fill_bytes = 0;    // over all ranks
  std::uint64_t rss_peak_max = 0;  // bytes, largest rank
  std::uint64_t rss_peak_rank0 = 0;
  std::vector<std::uint64_t> rss_peaks;  // by rank
  double ceiling_gbps = 0;               // raw reading speed measured beside this run, GB/s; 0: not measured
  std::optional<double> resident_share;  // of the file's pages in the page cache just before the run, 0 to 1

  // bytes / (total_s - startup_s) in GB/s (1e9); 0 if no time passed.
  double gbps() const;
};

struct BenchReport {
  std::string version, checkpoint, mesh, layout, device, fabric, io;
  std::string cache;  // "warm" or "cold"
  std::uint64_t ranks = 0, hosts = 0;
  std::uint64_t warmup = 0;
  std::vector<std::string> notes;  // a '#' line each
  std::vector<BenchRun> runs;
};

// stddev is the sample's (n - 1); 0 for a single value.
struct Spread {
  double max = 0, min = 0, mean = 0, stddev = 0;
};
Spread spread_of(const std::vector<double>& values);

struct BenchSummary {
  std::string strategy;
  bool baseline = false;
  std::uint64_t runs = 0;
  Spread gbps;
  Spread total_s, startup_s, read_s, fill_s, verify_s;
  std::optional<double> ceiling_share;  // mean GB/s over the mean ceiling; nothing if no ceiling was measured
  std::uint64_t bytes = 0, read_bytes = 0, fill_bytes = 0;  // the largest of the runs
  std::uint64_t rss_peak_max = 0, rss_peak_rank0 = 0;       // the largest of the runs
  std::optional<double> resident_share;                     // the largest of the runs
};

// One per strategy, in the order of their first run.
std::vector<BenchSummary> summarize(const BenchReport& report);

// The last line names the best strategy (mean GB/s) and its ratio to each other one.
std::string to_text(const BenchReport& report);
std::string to_json(const BenchReport& report);
// A header and a line per run.
std::string to_csv(const BenchReport& report);

}  // namespace slabload
