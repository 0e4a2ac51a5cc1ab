#include "base/crc64.h"

#include <isa-l/crc64.h>

#include <array>

namespace slabload {
namespace {

constexpr std::uint64_t kPolynomial = 0xC96C5795D7870F42;  // ECMA-182, reflected: bit 63 is x^0

// a * b modulo the polynomial, both reflected.
constexpr std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  while (a != 0) {
    if (a >> 63) product ^= b;
    a <<= 1;
    b = (b >> 1) ^ ((b & 1) ? kPolynomial : 0);
  }
  return product;
}

// x^(8 * 2^i) for every i.
constexpr std::array<std::uint64_t, 64> make_powers() {
  std::array<std::uint64_t, 64> powers{};
  powers[0] = std::uint64_t{1} << 55;  // x^8
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = multiply(powers[i - 1], powers[i - 1]);
  return powers;
}

constexpr auto kPowers = make_powers();

}  // namespace

std::uint64_t crc64_part(const void* data, std::size_t size) {
  // ISA-L inverts its seed and its result; seeding with all ones cancels the first, ~ the second.
  return ~crc64_ecma_refl(~std::uint64_t{0}, static_cast<const unsigned char*>(data), size);
}

std::uint64_t crc64_shift(std::uint64_t crc, std::uint64_t zeros) {
  for (std::size_t i = 0; zeros != 0 && crc != 0; ++i, zeros >>= 1) {
    if (zeros & 1) crc = multiply(kPowers[i], crc);
  }
  return crc;
}

std::uint64_t crc64_finish(std::uint64_t linear, std::uint64_t size) {
  return ~(linear ^ crc64_shift(~std::uint64_t{0}, size));
}

}  // namespace slabload
