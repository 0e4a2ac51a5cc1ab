// The checksums of the final shards, taken where they lie.
#pragma once

#include "exec/load_run.h"

namespace slabload {

class ShardCheck {
 public:
  // What it needs of the device, and as much again of the host, pinned.
  static std::uint64_t bytes(const LoadPlan& plan);
  // Allocates what it needs. `run` outlives it.
  explicit ShardCheck(LoadRun& run);

  // Sets bad[t] to 1 for each tensor whose shard on this rank is not what its readers had (run.final_crc,
  // reduced over all ranks) or not what the first of its replicas has. Collective.
  void compare(std::vector<std::uint64_t>& bad);

 private:
  std::vector<std::uint64_t> own_sums();

  LoadRun& run_;
  std::uint64_t parts_;  // of this rank's shards, each summed up by itself
  std::unique_ptr<DeviceMemory> sums_;  // of the device
  std::unique_ptr<DeviceMemory> here_;  // of the host
};

}  // namespace slabload
