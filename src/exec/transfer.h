// Writing a whole checkpoint, each rank an even share: what generate, import and export have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/control.h"
#include "backend/sink.h"
#include "exec/monitor.h"
#include "tensor/box.h"

namespace slabload {

struct TransferResult {
  std::uint64_t bytes = 0;  // of this rank
  double make_s = 0;        // this rank: making or reading values
  double checksum_s = 0;
  double write_s = 0;
  double commit_s = 0;
  std::uint64_t tensors_checked = 0;  // import, export: tensors compared with a checksum that the source had
  std::vector<std::uint64_t> crc64;   // CRC-64/XZ of each tensor, the same on every rank
};

struct TransferJob {
  const TensorIndex& source;   // says how the tensors are shared out (see plan/byte_share.h)
  const TensorIndex& target;   // what the sink creates: the same tensors in the same order
  std::uint64_t buffer_bytes;  // at least one element
  // Puts elements `range` of a tensor, little-endian, into `out`. Not collective.
  std::function<void(std::size_t tensor, FlatRange range, std::byte* out)> make;
  // Runs on every rank between the last write and the commit, and may refuse it; may be empty.
  std::function<void(TransferResult&)> check;
};

// Creates the target, writes it through one buffer, with checksums, and commits it. Collective. If any rank
// fails, all throw its error and the sink is abandoned. `monitor` (may be null) hears of every buffer.
TransferResult transfer(const TransferJob& job, CheckpointSink& sink, Control& control, Monitor* monitor);

}  // namespace slabload
