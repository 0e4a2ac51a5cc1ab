// A checksum of what an index says, so that a file's metadata is proved as its data is.
#pragma once

#include <cstdint>

#include "index/tensor_index.h"

namespace slabload {

// CRC-64/XZ over names, aliases, dtypes, byte orders, shapes, places, chunks, filters, fill values and
// checksums of all tensors, and the metadata. Neither the order of the tensors nor the file's name, size and
// time count, nor objects that are no tensors. src/format.md has the bytes it is taken over; they are the
// same for every minor version of the format.
std::uint64_t index_checksum(const TensorIndex& index);

}  // namespace slabload
