// Reading tensor bytes: one open checkpoint on one rank.
#pragma once

#include <cstdint>
#include <string>

#include "index/tensor_index.h"
#include "tensor/box.h"

namespace slabload {

// What one rank asked of the file system for tensor data (not metadata).
struct StorageCounters {
  std::uint64_t bytes =
      0;  // bytes requested; for filtered chunks the stored (compressed) bytes of the chunks read
  std::uint64_t requests = 0;
  double open_s = 0;  // time within reads that went into opening datasets: metadata, not tensor bytes
};

class Storage {
 public:
  virtual ~Storage() = default;

  // Reads a non-empty box of a tensor, densely and row-major, into `out` (box elements * dtype size bytes),
  // in the file's own byte order. The caller keeps one call below 1 GiB. Not collective. Throws Status::file
  // naming file, tensor and box if the bytes cannot be had; a short read is an error, never zeros.
  virtual void read(const TensorMeta& tensor, const Box& box, void* out) = 0;

  // Reads bytes [offset, offset + bytes) of the file that `first` lies in, in one request: of contiguous tensors that
  // follow one another there, from `first` to `last`. Otherwise as read().
  virtual void read_extent(const TensorMeta& first, const TensorMeta& last, std::uint64_t offset,
                           std::uint64_t bytes, void* out) = 0;

  // As read(), collective over all ranks that opened the checkpoint; a rank with nothing to read passes
  // nullptr. All ranks make the same sequence of calls. If one rank fails the others may block: run it under
  // a watchdog.
  virtual void read_collective(const TensorMeta& tensor, const Box* box, void* out) = 0;

  // True if read_collective is the way to read this tensor; the same answer on every rank.
  virtual bool collective(const TensorMeta& tensor) const = 0;

  // Throws Status::file if a file is no longer what it was when the index was made (size, modification time,
  // inode): a file cut short reads as zeros below MPI-IO, without an error. Not collective.
  virtual void check_unchanged() = 0;

  // To be called before an error that only this rank knows of leaves the load: the other ranks will not come to close the
  // files together with it, so they are left open and the job has to be ended. Nothing may be read afterwards.
  virtual void abandon() noexcept {}

  virtual StorageCounters counters() const = 0;

  // What does the reading, for the report: "independent, ROMIO 321", "direct, pread".
  virtual std::string description() const = 0;
};

}  // namespace slabload
