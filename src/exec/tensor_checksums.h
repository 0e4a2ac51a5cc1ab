// The CRC-64 of every tensor of an index, gathered from parts that the ranks have seen.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/control.h"
#include "index/tensor_index.h"
#include "tensor/box.h"

namespace slabload {

class TensorChecksums {
 public:
  // Keeps a reference to the index.
  explicit TensorChecksums(const TensorIndex& index);

  // Takes in the bytes (little-endian) of elements `range` of tensor `tensor`. Every element once over all
  // ranks.
  void add(std::size_t tensor, FlatRange range, const void* data);

  // The CRC-64/XZ of each tensor, the same on every rank. Collective; once.
  std::vector<std::uint64_t> combine(Control& control);

 private:
  const TensorIndex& index_;
  std::vector<std::uint64_t> linear_;
};

}  // namespace slabload
