// An HDF5 file with everything a checkpoint reader may meet, made by plain HDF5 calls, and what it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/tensor_index.h"

namespace slabload::testing {

// One tensor of the file. `bytes` are all its elements, dense, row-major and little-endian, whatever the
// file's order.
struct OddTensor {
  std::string name;
  std::vector<std::string> aliases;
  DType dtype;
  std::vector<std::uint64_t> shape;
  std::string bytes;
  StorageKind storage;
  bool big_endian = false;
};

// An object of the file that is no tensor, and a word that the reason must contain.
struct OddObject {
  std::string name;
  std::string reason_word;
};

struct OddFile {
  std::vector<OddTensor> tensors;  // by name
  std::vector<OddObject> skipped;  // by name
};

// Creates the file at `path` (and nothing else) with a user block of `user_block` bytes (0, or a power of two
// from 512). Element i of a tensor made with `seed` has the bits odd_bits(seed, i), cut to the size of its
// type (bool: its lowest bit). Not collective: call it on one rank. Throws std::runtime_error.
OddFile write_odd_hdf5(const std::string& path, std::uint64_t user_block = 0);

// 64 well-mixed bits of a seed and a number.
std::uint64_t odd_bits(std::uint64_t seed, std::uint64_t i);

// A new file with one contiguous tensor "a" of f32 with `elements` elements: those of odd_bits(1, i).
OddTensor write_one_tensor(const std::string& path, std::uint64_t elements);

}  // namespace slabload::testing
