// Synthetic tensor values: a pure function of seed, tensor name and flat index, so that any part of any
// tensor can be made, or checked, on any rank without a file.
//
// The formula (an independent copy of it is in the tests; it is part of the file format of `generate`):
//   key   = FNV-1a 64 of the name's bytes, started at 14695981039346656037 ^ mix(seed)
//   word  = mix(key + flat_byte_offset / 8), flat_byte_offset = flat index * element size
//   mix   = the splitmix64 step: z = x + 0x9e3779b97f4a7c15; z = (z ^ z>>30) * 0xbf58476d1ce4e5b9;
//           z = (z ^ z>>27) * 0x94d049bb133111eb; z ^ z>>31
//   bits  = the element's lane of the word (little-endian: lane 0 is the lowest)
// A floating pattern that would be a NaN has its top exponent bit cleared; a bool is the lane's lowest bit.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace slabload {

class SyntheticTensor {
 public:
  SyntheticTensor(std::uint64_t seed, std::string_view name, DType dtype);

  // Writes `count` elements from flat index `begin` on, little-endian, to `out` (count * dtype_size bytes).
  void fill(std::uint64_t begin, std::uint64_t count, void* out) const;

 private:
  std::uint64_t key_;
  DType dtype_;
};

}  // namespace slabload
