// The linear CRC (base/crc64.h) of a box of a tensor.
#pragma once

#include <cstdint>

#include "tensor/box.h"
#include "tensor/box_checksum_body.h"

namespace slabload {

// `data` holds `box` densely. The result is the box's share of its tensor's linear CRC, which is taken in
// row-major order: the XOR of the shares of boxes that cover the tensor once is the tensor's.
std::uint64_t box_checksum(const Shape& shape, const Box& box, std::uint32_t element_size, const void* data);

// The same cut up for `threads` threads or more.
BoxCrc make_box_crc(const Shape& shape, const Box& box, std::uint32_t element_size, std::uint64_t threads);

}  // namespace slabload
