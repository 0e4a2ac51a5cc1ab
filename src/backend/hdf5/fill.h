// The elements of a tensor that was never written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/tensor_index.h"

namespace slabload::hdf5 {

// Writes the tensor's fill element (zeros if it has none) `elements` times.
void repeat_element(const TensorMeta& tensor, std::uint64_t elements, std::byte* out);

}  // namespace slabload::hdf5
