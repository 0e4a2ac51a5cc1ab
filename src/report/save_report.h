// The report of a save: one struct, printed as text and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/phase_table.h"

namespace slabload {

struct SaveReport {
  std::string version, source, checkpoint, mesh, layout, strategy, strategy_why, device, fabric, storage;
  std::vector<std::string> notes;
  std::uint64_t ranks = 0, hosts = 0, ranks_per_node = 0;
  std::uint64_t tensors = 0, tensor_bytes = 0, file_bytes = 0;
  std::uint64_t rounds = 0, staging_budget = 0;
  bool reread = false;    // what was written was read again and compared before the rename
  double source_s = 0;    // what it took to get the shards: the load, or the reading of staged shards
  std::vector<RankStats> per_rank;

  double write_amplification() const;  // bytes written over all ranks / bytes of the tensors; 1 if there are none
  double total_s() const { return longest_of(per_rank, &RankStats::total_s); }
  std::vector<PhaseSummary> phases() const;
};

std::string to_text(const SaveReport& report);
// One JSON object, keys in snake_case with units.
std::string to_json(const SaveReport& report);

}  // namespace slabload
