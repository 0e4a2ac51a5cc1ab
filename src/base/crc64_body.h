// CRC-64's arithmetic, for hosts and kernels: linear CRCs (see base/crc64.h) are polynomials over the field
// of two elements modulo ECMA-182's, reflected, so that bit 63 is x^0 and a byte in memory lies as it is.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace slabload {

// b * x modulo the polynomial.
SLABLOAD_HD constexpr std::uint64_t crc64_times_x(std::uint64_t b) {
  return (b >> 1) ^ (0xC96C5795D7870F42 & (std::uint64_t{0} - (b & 1)));
}

// a * b modulo the polynomial.
SLABLOAD_HD constexpr std::uint64_t crc64_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  for (; a != 0; a <<= 1, b = crc64_times_x(b)) product ^= b & (std::uint64_t{0} - (a >> 63));
  return product;
}

inline constexpr std::uint64_t kCrc64One = std::uint64_t{1} << 63;  // x^0

// x^(8 * 2^i) for every i: what to multiply by to shift by 2^i zero bytes.
struct Crc64Powers {
  std::uint64_t of[64];
};
SLABLOAD_HD constexpr Crc64Powers make_crc64_powers() {
  Crc64Powers powers{};
  powers.of[0] = std::uint64_t{1} << 55;  // x^8
  for (int i = 1; i < 64; ++i) powers.of[i] = crc64_multiply(powers.of[i - 1], powers.of[i - 1]);
  return powers;
}

// The linear CRC of a message that `zeros` zero bytes are put behind.
SLABLOAD_HD inline std::uint64_t crc64_shift(const Crc64Powers& powers, std::uint64_t crc,
                                             std::uint64_t zeros) {
  for (int i = 0; zeros != 0 && crc != 0; ++i, zeros >>= 1) {
    if (zeros & 1) crc = crc64_multiply(powers.of[i], crc);
  }
  return crc;
}

// Multiplying by one factor many times: 16 tables, one for each half byte of the other factor, which the
// entry's own 4 bits choose from. A GPU keeps kCrc64Copies copies side by side, so that neighbouring threads
// read from different memory banks.
struct Crc64Factor {
  std::uint64_t bit[64];  // the factor times the polynomial that has only bit i
};
inline constexpr std::uint32_t kCrc64Entries = 16 * 16;
inline constexpr std::uint32_t kCrc64Copies = 16;

SLABLOAD_HD constexpr Crc64Factor make_crc64_factor(std::uint64_t factor) {
  Crc64Factor out{};
  for (int i = 64; i-- > 0; factor = crc64_times_x(factor)) out.bit[i] = factor;
  return out;
}

// Entry `index` = 16 * (which half byte, from the lowest) + its value.
SLABLOAD_HD inline std::uint64_t crc64_entry(const Crc64Factor& factor, std::uint32_t index) {
  std::uint64_t entry = 0;
  for (std::uint32_t b = 0; b < 4; ++b) {
    if (index >> b & 1) entry ^= factor.bit[(index >> 4) * 4 + b];
  }
  return entry;
}

// crc times the factor. `table` points to the first entry of one copy; entries are `stride` numbers apart.
SLABLOAD_HD inline std::uint64_t crc64_multiply_by_table(const std::uint64_t* table, std::uint32_t stride,
                                                         std::uint64_t crc) {
  std::uint64_t product = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (std::uint32_t n = 0; n < 16; ++n) {
    auto index = static_cast<std::uint32_t>(16 * n + (crc >> (4 * n) & 15));
    product ^= table[index * stride];
  }
  return product;
}

}  // namespace slabload
