// Copying a checkpoint, bit for bit, into a new one: import and export.
#pragma once

#include "backend/storage.h"
#include "exec/transfer.h"
#include "index/tensor_index.h"

namespace slabload {

// The most memory one rank of a copy uses for tensor bytes.
inline constexpr std::uint64_t kMaxCopyBuffer = std::uint64_t{8} << 20;

// Copies every tensor of `index` from `source`, each rank an even share through one buffer of `buffer_bytes`
// (8 bytes to 8 MiB; outside of that the nearer of the two). Big-endian elements become little-endian;
// metadata is kept. Throws Status::wrong_data naming the tensors whose bytes do not have the checksum that
// the source's index gives, and Status::file if the source changed meanwhile; then, as after any error on any
// rank, all ranks throw and the sink is abandoned. Collective.
TransferResult copy_checkpoint(Storage& source, const TensorIndex& index, CheckpointSink& sink,
                                 Control& control, std::uint64_t buffer_bytes = kMaxCopyBuffer,
                                 Monitor* monitor = nullptr);

}  // namespace slabload
