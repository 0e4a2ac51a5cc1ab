// Making and finishing a slabload HDF5 file, on one process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/tensor_index.h"

namespace slabload::hdf5 {

// How the tensors are stored.
struct CreateOptions {
  std::uint64_t chunk_bytes = 0;  // 0: contiguous; else in chunks of whole rows of at most so many bytes
  unsigned deflate = 0;           // 0: not compressed; else gzip's level, behind a shuffle. Needs chunks.
  bool keep_attributes = false;   // those of the HDF5 file that the index is of
};

struct CreatedFile {
  TensorIndex index;               // as the index given, with path, storage and offset of every tensor set, same order
  std::vector<std::string> notes;  // attributes that could not be kept
};

// Overwrites the file, which the caller has just made, with a dataset per tensor of `index` (names, dtypes and shapes are
// used) and its metadata, marked as not complete. No tensor byte is written. Throws Status::file.
CreatedFile create_file(const std::string& path, const TensorIndex& index, const CreateOptions& options = {});

// The chunk of a tensor that is stored in chunks of at most `bytes`: whole rows, or of the first dimension whose rows fit;
// empty for a tensor that is better contiguous (0-d, empty, smaller than 4 KiB).
Dims chunk_shape(const TensorMeta& tensor, std::uint64_t bytes);

// Checks that the file still holds the datasets that create_file made, stores their checksums, one per tensor
// of `made`, and that of the index, and marks it complete. Throws Status::file.
void finish_file(const std::string& path, const TensorIndex& made, const std::vector<std::uint64_t>& crc64);

}  // namespace slabload::hdf5
