// Making and finishing a slabload HDF5 file, on one process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/tensor_index.h"

namespace slabload::hdf5 {

// Overwrites the file, which the caller has just made, with a contiguous dataset per tensor of `index`
// (names, dtypes and shapes are used) and its metadata, marked as not complete. No tensor byte is written.
// Returns the index of the new file: as `index`, with path, storage and offset of every tensor set, same
// order. Throws Status::file.
TensorIndex create_file(const std::string& path, const TensorIndex& index);

// Checks that the file still holds the datasets that create_file made, stores their checksums, one per tensor
// of `made`, and that of the index, and marks it complete. Throws Status::file.
void finish_file(const std::string& path, const TensorIndex& made, const std::vector<std::uint64_t>& crc64);

}  // namespace slabload::hdf5
