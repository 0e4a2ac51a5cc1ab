// Every byte of a checkpoint through a checksum, each rank an even share: what `verify` runs.
#pragma once

#include "app/checkpoint.h"
#include "exec/loader.h"
#include "plan/planner.h"

namespace slabload {

struct Scan {
  TensorIndex index;
  LoadResult result;        // crc64 per tensor; wrong: those that differ from a stored checksum
  double seconds = 0;       // of the slowest rank
  std::uint64_t bytes = 0;  // over all ranks
  std::string io;
};

// Collective; errors are agreed.
Scan scan_checkpoint(Session& session, const std::string& path, const RunOptions& options,
                     Watchdog& watchdog);

}  // namespace slabload
