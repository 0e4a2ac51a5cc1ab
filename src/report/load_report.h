// The report of a load: one struct, printed as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/rank_stats.h"
#include "report/phase_table.h"

namespace slabload {

struct WrongTensor {
  std::string name;
  std::uint64_t expected = 0;  // CRC-64/XZ
  std::uint64_t found = 0;
};

// A share, 0 to 1, and whose it is.
struct RankShare {
  double share = 0;
  std::uint64_t rank = 0;
};

struct LoadReport {
  // What was asked, and why it was done so.
  std::string version, checkpoint, mesh, layout, strategy, strategy_why, device, fabric, io;
  std::vector<std::string> hints;
  std::vector<std::string>
      notes;  // a '#' line each: narrowing casts, byte order converted, skipped objects, ...
  bool baseline = false;
  std::uint64_t ranks = 0, hosts = 0, ranks_per_node = 0;
  std::uint64_t tensors = 0, tensors_verified = 0, tensors_unverified = 0;
  std::vector<WrongTensor> wrong;
  std::uint64_t selected_bytes = 0;  // stored bytes of the selected tensors, each counted once
  std::uint64_t rounds = 0, staging_budget = 0;
  std::uint64_t slots = 0, slot_bytes = 0;  // how the staging was cut
  double bound_s = 0;                       // 0 if no bandwidth was given
  std::vector<RankStats> per_rank;

  // Derived from per_rank.
  std::uint64_t read_bytes() const;
  std::uint64_t read_requests() const;
  std::uint64_t fill_bytes() const;
  double read_amplification() const;        // read_bytes / selected_bytes; 1 if nothing was selected to read
  double read_share_max_over_mean() const;  // 1 if nothing was read
  std::uint64_t staging_peak_max() const;
  std::uint64_t shard_bytes_max() const;
  std::uint64_t rss_peak_max() const;
  std::uint64_t rss_peak_rank() const;
  double total_s() const;  // the slowest rank's total
  // The share of the time of copies and fills during which their rank was reading: of the sums over all
  // ranks, and the lowest of one rank. Nothing where nothing was copied or filled.
  std::optional<double> hidden_share() const;
  std::optional<RankShare> hidden_share_min() const;
  std::vector<PhaseSummary> phases() const;
};

// As cli.md orders it: '#' lines, the phase table, the figures, '#wrong' last.
std::string to_text(const LoadReport& report);
// One JSON object, keys in snake_case with units.
std::string to_json(const LoadReport& report);

}  // namespace slabload
