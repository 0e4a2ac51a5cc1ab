// Runs a LoadPlan: reads, copies and transfers, round by round, and proves the result.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/control.h"
#include "backend/device.h"
#include "backend/fabric.h"
#include "backend/storage.h"
#include "exec/monitor.h"
#include "exec/rank_stats.h"
#include "exec/verify_mode.h"
#include "plan/load_plan.h"

namespace slabload {

// The systems a load runs on; all outlive the loader.
struct LoaderParts {
  Storage& storage;
  Device& device;
  Fabric& fabric;
  Control& control;
  Monitor& monitor;
};

struct LoaderOptions {
  VerifyMode verify = VerifyMode::checksum;
  std::uint64_t scratch = 0;  // bytes for conversions, part of the staging budget; 0 if nothing converts
  std::uint64_t read_piece =
      1 << 20;  // a read is issued in pieces of this size, so that its checksum is taken from cache
};

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
};

class Loader {
 public:
  Loader(const TensorIndex& index, LoaderParts parts, const LoaderOptions& options);

  // Collective over all ranks, each with its own part of one plan. Adds to `stats` what this rank did. Throws
  // an agreed Error if any rank failed; data that is wrong is not an error here but is listed in the result.
  LoadResult run(const LoadPlan& plan, RankStats& stats);

 private:
  std::byte* at(const Place& place, std::size_t slot) const;
  void read_round(const Round& round, std::size_t slot);
  void read_step(const Round& round, std::size_t step, std::size_t& next, std::size_t slot);
  void prepare(std::byte* data, std::uint64_t bytes);
  void read_item(const ReadItem& item, std::byte* out);
  void read_box(const TensorMeta& tensor, const ReadItem& item, const Box& box, std::byte* out);
  void take_in(const TensorMeta& tensor, const ReadItem& item, const Box& box, std::byte* source,
               std::byte* out);
  void issue_fills(const Round& round, std::size_t slot);
  void copy_all(const std::vector<CopyItem>& copies, std::size_t slot);
  std::uint64_t received_bytes(const FillItem& fill) const;
  void run_rounds();
  void verify(LoadResult& result);
  void verify_shards(std::vector<std::uint64_t>& bad);

  const TensorIndex& index_;
  LoaderParts parts_;
  LoaderOptions options_;
  // Of the run under way.
  const LoadPlan* plan_ = nullptr;
  RankStats* stats_ = nullptr;
  std::unique_ptr<DeviceMemory> shards_, stage_, keep_, scratch_;
  std::optional<Error> failure_;           // this rank's first, until the ranks agree on it
  std::vector<std::uint64_t> stored_crc_;  // linear, per tensor, of what this rank read
  std::vector<std::uint64_t> final_crc_;   // the same after conversion; only for VerifyMode::shards
  std::uint64_t moved_ = 0, to_move_ = 0;
};

}  // namespace slabload
