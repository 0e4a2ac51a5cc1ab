// The linear CRC (base/crc64.h) of a box of a tensor, taken bit by bit in row-major order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/crc64.h"
#include "tensor/box.h"

namespace slabload {

// `data` holds `box` densely. The result is the box's share of its tensor's linear CRC: the XOR of the shares
// of boxes that cover the tensor once is the tensor's.
inline std::uint64_t box_checksum(const Shape& shape, const Box& box, std::uint32_t element_size,
                                  const void* data) {
  std::uint64_t total = shape.elements();
  std::uint64_t sum = 0;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for_each_run(shape, box, [&](std::uint64_t begin, std::uint64_t length) {
    std::uint64_t part = crc64_part(bytes, length * element_size);
    sum ^= crc64_shift(part, (total - begin - length) * element_size);
    bytes += length * element_size;
  });
  return sum;
}

}  // namespace slabload
