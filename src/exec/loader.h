// Runs a LoadPlan: reads, copies and transfers, round by round, and proves the result.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/load_run.h"

namespace slabload {

class Agreement;
class FillPath;
class ReadPath;

// A tensor whose bytes are not those its checksum was made from.
struct Mismatch {
  std::uint32_t tensor = 0;
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};

struct LoadResult {
  std::unique_ptr<DeviceMemory> shards;  // LoadPlan::shard_bytes bytes; tensor t at plan.shards[t].offset
  std::vector<std::uint64_t>
      crc64;                    // per tensor, of the stored bytes as they were read; empty if not verified
  std::vector<Mismatch> wrong;  // the same on every rank
  std::uint64_t verified = 0;   // tensors whose bytes were compared with a stored checksum
  std::uint64_t unverified = 0;
  std::vector<std::string> notes;  // lines for the report, the same on every rank
};

class Loader {
 public:
  Loader(const TensorIndex& index, LoaderParts parts, const LoaderOptions& options);

  // Collective over all ranks, each with its own part of one plan. Adds to `stats` and `timeline` what this
  // rank did. All memory is allocated, and the fabric is connected, before the first read; the device is
  // warmed up already. Throws an agreed Error if any rank failed; data that is wrong is not an error here but
  // is listed in the result.
  LoadResult run(const LoadPlan& plan, RankStats& stats, Timeline& timeline);

 private:
  void run_rounds(LoadRun& run, ReadPath& reads, FillPath& fills);
  void read_round(LoadRun& run, ReadPath& reads, Agreement& agreement, std::size_t number);
  void end_rounds(LoadRun& run, ReadPath& reads, FillPath& fills, Agreement& agreement);
  void compare_rereads(LoadRun& run, std::vector<std::uint64_t>& bad);
  void verify(LoadRun& run, class ShardCheck* check, LoadResult& result);

  const TensorIndex& index_;
  LoaderParts parts_;
  LoaderOptions options_;
};

}  // namespace slabload
