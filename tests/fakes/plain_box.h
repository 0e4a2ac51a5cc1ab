// Boxes copied and summed up in the plainest way, byte by byte and bit by bit.
#pragma once

#include <cstdint>
#include <string>

#include "fakes/random_case.h"
#include "fakes/reference.h"
#include "tensor/box.h"

namespace slabload::testing {

inline std::string random_bytes(std::uint64_t size, std::uint64_t seed) {
  std::string out;
  out.reserve(size);
  for (std::uint64_t i = 0; i < size; ++i) out += static_cast<char>(mix64(seed * 77777 + i));
  return out;
}

// Every coordinate of the box, moved from its place in `from_box` to its place in `to_box`.
inline void copy_plainly(std::uint64_t size, const Box& box, const std::string& from, const Box& from_box,
                         std::string& to, const Box& to_box) {
  std::uint64_t count = 1;
  for (std::uint64_t e : box.extent) count *= e;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t rest = i, source = 0, target = 0, source_stride = 1, target_stride = 1;
    for (std::size_t d = box.extent.size(); d-- > 0; rest /= box.extent[d]) {
      std::uint64_t at = box.start[d] + rest % box.extent[d];
      source += (at - from_box.start[d]) * source_stride;
      target += (at - to_box.start[d]) * target_stride;
      source_stride *= from_box.extent[d];
      target_stride *= to_box.extent[d];
    }
    to.replace(target * size, size, from, source * size, size);
  }
}

// The linear CRC by its definition: the register starts at zero and is not inverted.
inline std::uint64_t plain_linear_crc(const std::string& bytes) {
  std::uint64_t crc = 0;
  for (unsigned char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      // The register is held unreflected: bit i of the usual reflected form is bit 63 - i here.
      bool carry = ((crc >> 63) & 1) != ((byte >> bit) & 1u);
      crc = (crc << 1) ^ (carry ? 0x42f0e1eba9ea3693 : 0);
    }
  }
  std::uint64_t reflected = 0;
  for (int bit = 0; bit < 64; ++bit) reflected |= ((crc >> bit) & 1) << (63 - bit);
  return reflected;
}

// A box's share: the CRC of the tensor that is zero everywhere else.
inline std::uint64_t plain_checksum(const Shape& shape, const Box& box, std::uint64_t size,
                                    const std::string& bytes) {
  std::string tensor(shape.elements() * size, '\0');
  copy_plainly(size, box, bytes, box, tensor, {Dims(shape.ndim(), 0), shape.lengths()});
  return plain_linear_crc(tensor);
}

// A box, of no elements now and then, and two that hold it, often exactly in some dimensions.
struct BoxCopy {
  Box box, from_box, to_box;
};
inline BoxCopy random_box_copy(Random& random) {
  BoxCopy c;
  for (std::uint64_t d = random.below(6); d > 0; --d) {
    c.box.start.push_back(random.below(4));
    c.box.extent.push_back(random.one_in(25) ? 0 : 1 + random.below(4));
  }
  for (Box* outer : {&c.from_box, &c.to_box}) {
    *outer = c.box;
    for (std::size_t d = 0; d < c.box.ndim(); ++d) {
      if (random.one_in(2)) continue;
      std::uint64_t before = random.below(c.box.start[d] + 1);
      outer->start[d] -= before;
      outer->extent[d] += before + random.below(3);
    }
  }
  return c;
}

}  // namespace slabload::testing
