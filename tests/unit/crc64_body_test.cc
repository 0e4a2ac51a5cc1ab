// The arithmetic of CRC-64 against schoolbook polynomials.
#include "base/crc64_body.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/crc64.h"

namespace slabload {
namespace {

std::uint64_t reversed(std::uint64_t bits) {
  std::uint64_t out = 0;
  for (int i = 0; i < 64; ++i) out |= ((bits >> i) & 1) << (63 - i);
  return out;
}

// The product of two polynomials, bit i being x^i, modulo x^64 + 0x42f0e1eba9ea3693: multiplied out to 127
// bits, then divided.
std::uint64_t plain_product(std::uint64_t a, std::uint64_t b) {
  unsigned __int128 product = 0;
  for (int i = 0; i < 64; ++i) {
    if (a >> i & 1) product ^= static_cast<unsigned __int128>(b) << i;
  }
  unsigned __int128 divisor = (static_cast<unsigned __int128>(1) << 64) | 0x42f0e1eba9ea3693;
  for (int i = 126; i >= 64; --i) {
    if (product >> i & 1) product ^= divisor << (i - 64);
  }
  return static_cast<std::uint64_t>(product);
}

TEST(Crc64Body, MultipliesPolynomials) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::uint64_t a = random() >> random() % 64, b = random() << random() % 64;
    ASSERT_EQ(reversed(crc64_multiply(a, b)), plain_product(reversed(a), reversed(b)));
  }
  EXPECT_EQ(crc64_multiply(0, 5), 0u);
  EXPECT_EQ(crc64_multiply(kCrc64One, 5), 5u);
  EXPECT_EQ(crc64_multiply(5, kCrc64One), 5u);
}

TEST(Crc64Body, PowersSquareEachOther) {
  constexpr Crc64Powers powers = make_crc64_powers();
  EXPECT_EQ(reversed(powers.of[0]), 1u << 8);
  for (int i = 1; i < 64; ++i) {
    std::uint64_t before = reversed(powers.of[i - 1]);
    EXPECT_EQ(reversed(powers.of[i]), plain_product(before, before));
  }
}

TEST(Crc64Body, TablesMultiply) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20; ++i) {
    std::uint64_t factor = random();
    Crc64Factor made = make_crc64_factor(factor);
    for (std::uint32_t stride : {1u, 16u}) {
      std::vector<std::uint64_t> tables(kCrc64Entries * stride);
      for (std::uint32_t k = 0; k < tables.size(); ++k) tables[k] = crc64_entry(made, k / stride);
      for (int j = 0; j < 100; ++j) {
        std::uint64_t crc = random() >> random() % 64;
        ASSERT_EQ(crc64_multiply_by_table(tables.data() + random() % stride, stride, crc),
                  crc64_multiply(factor, crc));
      }
    }
  }
}

}  // namespace
}  // namespace slabload
