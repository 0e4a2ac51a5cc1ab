// CRC-64/XZ (ECMA-182, reflected), in a form whose parts can be taken on different ranks and combined.
//
// A CRC without its initial and final inversion is linear: crc(a || b) = shift(crc(a), |b|) ^ crc(b), where
// shift multiplies by x^(8*|b|) modulo the polynomial. So a tensor's CRC is the XOR of its parts' CRCs, each
// shifted by the bytes that follow the part, in any order and from any number of ranks: one MPI_BXOR. The
// inversion that makes the stored value the standard CRC-64/XZ depends on the length only and is put on at
// the end (finish). Check value: CRC-64/XZ of "123456789" is 995dc9bbdf1939fa.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/crc64_body.h"

namespace slabload {

// The linear (uninverted) CRC of `size` bytes.
std::uint64_t crc64_part(const void* data, std::size_t size);

// The linear CRC of a message whose first part has the linear CRC `crc`, followed by `zeros` zero bytes.
std::uint64_t crc64_shift(std::uint64_t crc, std::uint64_t zeros);

// The powers that crc64_shift multiplies by, for those who do so elsewhere.
const Crc64Powers& crc64_powers();

// The linear CRC of part a followed by part b of `size_b` bytes.
inline std::uint64_t crc64_append(std::uint64_t crc_a, std::uint64_t crc_b, std::uint64_t size_b) {
  return crc64_shift(crc_a, size_b) ^ crc_b;
}

// The linear CRC of `count` copies, one after the other, of a part of `size` bytes that has the linear CRC `crc`.
std::uint64_t crc64_repeat(std::uint64_t crc, std::uint64_t size, std::uint64_t count);

// The standard CRC-64/XZ of a message of `size` bytes in all whose linear CRC is `linear`.
std::uint64_t crc64_finish(std::uint64_t linear, std::uint64_t size);

}  // namespace slabload
