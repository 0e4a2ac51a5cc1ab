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

  // Collective. Syncs every rank's writes, stores the checksums (CRC-64/XZ, one per tensor of the index, used
  // on rank 0), marks the file complete, renames it over the target and syncs the folder.
  virtual void commit(const std::vector<std::uint64_t>& crc64) = 0;

  // Removes what was created, if it was not committed; safe to call at any time, on any rank. Not collective.
  virtual void abandon() noexcept = 0;
};

}  // namespace slabload
