// A load under way on one rank: what its steps share.
#pragma once

#include <memory>
#include <vector>

#include "backend/storage.h"
#include "exec/rank_run.h"
#include "exec/verify_mode.h"
#include "plan/staging.h"

namespace slabload {

// The systems a load runs on; all outlive the loader.
struct LoaderParts {
  Storage& storage;
  Device& device;
  Fabric& fabric;
  Control& control;
  Monitor& monitor;
};

// A read is issued in pieces of at most this size, so that its checksum is taken from cache.
inline constexpr std::uint64_t kReadPiece = 1 << 20;

struct LoaderOptions {
  VerifyMode verify = VerifyMode::checksum;
  StagingSplit staging;  // as the plan was made for
  std::uint64_t read_piece = kReadPiece;
};

struct LoadRun final : RankRun {
  Storage& storage;
  const LoaderOptions& options;

  LoadRun(const TensorIndex& of, const LoaderParts& on, const LoaderOptions& with, const LoadPlan& by,
          RankStats& numbers, Timeline& times)
      : RankRun(of, {on.device, on.fabric, on.control, on.monitor}, by, numbers, times),
        storage(on.storage),
        options(with) {}

  std::unique_ptr<DeviceMemory> shards{};
  std::vector<std::uint64_t>
      stored_crc{};  // linear, per tensor, of what this rank read; empty without verification
  std::vector<std::uint64_t> final_crc{};  // the same after conversion; only for VerifyMode::shards

  bool converts(std::uint32_t t) const { return plan.dtypes[t] != index.tensors[t].dtype; }
  void abandon() noexcept override { storage.abandon(); }
};

}  // namespace slabload
