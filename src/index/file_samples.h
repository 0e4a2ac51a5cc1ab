// Small pieces of a checkpoint's files by which a host tells that it sees the same files as another.
#pragma once

#include <cstdint>
#include <vector>

#include "index/tensor_index.h"

namespace slabload {

struct FileSample {
  std::uint32_t file = 0;  // which of TensorIndex::files
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// At most 32 pieces of at most 4 KiB, each within its file, in file order and spread evenly: beginnings and ends of files
// (there lies the metadata), and beginnings of tensors. The same on every rank. None of an index without files.
std::vector<FileSample> file_samples(const TensorIndex& index);

}  // namespace slabload
