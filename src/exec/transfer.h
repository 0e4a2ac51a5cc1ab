// What jobs that write a whole checkpoint report: generate and import.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/control.h"
#include "backend/sink.h"

namespace slabload {

// Called with the bytes this rank has written and those it will write in all. Keep it cheap: once per buffer.
using ProgressCallback = std::function<void(std::uint64_t done, std::uint64_t total)>;

struct TransferResult {
  std::uint64_t bytes = 0;  // of this rank
  double make_s = 0;        // this rank: making or reading values
  double checksum_s = 0;
  double write_s = 0;
  double commit_s = 0;
  std::uint64_t tensors_checked = 0;  // import: tensors compared with a checksum that the source had
  std::vector<std::uint64_t> crc64;   // CRC-64/XZ of each tensor, the same on every rank
};

// Runs `job` and, if it throws, removes what the sink has created on this rank before the error goes on.
template <typename Job>
void or_abandon(CheckpointSink& sink, Job&& job) {
  try {
    job();
  } catch (...) {
    sink.abandon();
    throw;
  }
}

}  // namespace slabload
