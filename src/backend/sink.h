// Writing a new checkpoint in parallel: beside the target, under its name only when it is whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/tensor_index.h"
#include "tensor/box.h"

namespace slabload {

class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;

  // Collective. One rank creates the file with every tensor of `index` (names, dtypes, shapes, metadata are
  // used) and reserves its space, so that a full disk shows here; then every rank opens it for writing.
  // Throws Status::file.
  virtual void create(const TensorIndex& index) = 0;

  // Writes elements [range.begin, range.end) of the flattened tensor number `tensor` of that index. Not
  // collective. Every element is to be written once, by one rank.
  virtual void write(std::size_t tensor, FlatRange range, const void* data) = 0;

  // Writes `bytes` bytes at `offset` of the target's file: of tensors that lie there one behind the other without a gap,
  // from number `first` to number `last`. Only where made() gives them offsets. Not collective.
  virtual void write_extent(std::size_t first, std::size_t last, std::uint64_t offset, std::uint64_t bytes,
                            const void* data) = 0;

  // True for a tensor that is written by write_together alone; the same on every rank.
  virtual bool collective(std::size_t /*tensor*/) const { return false; }
  // Writes a box of such a tensor, which `data` holds densely: whole chunks. Collective: all ranks make the same sequence of
  // calls, and one with nothing to write passes nullptr. If one rank fails the others may block: run it under a watchdog.
  virtual void write_together(std::size_t tensor, const Box* box, const void* data) = 0;

  // What was created: the tensors of the index in its order, with their places. Valid after create().
  virtual const TensorIndex& made() const = 0;

  // Lines for the report, on rank 0: what could not be kept, what was found.
  virtual std::vector<std::string> notes() const { return {}; }

  // Removes what was created from whichever rank, without waiting for the others: for an error that only this rank knows of
  // and that ends the job.
  virtual void abandon_alone() noexcept { abandon(); }

  // Collective. Syncs every rank's writes, stores the checksums (CRC-64/XZ, one per tensor of the index, used
  // on rank 0), marks the file complete, renames it over the target and syncs the folder.
  virtual void commit(const std::vector<std::uint64_t>& crc64) = 0;

  // Removes what was created, if it was not committed; safe to call at any time, on any rank. Not collective.
  virtual void abandon() noexcept = 0;
};

}  // namespace slabload
