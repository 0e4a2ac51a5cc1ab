// Numbers at any address, and the small arithmetic that hosts and kernels share.
#include "base/unaligned.h"

#include <gtest/gtest.h>

#include <vector>

namespace slabload {
namespace {

TEST(Unaligned, LoadsAndStoresEverySizeWithEveryUnit) {
  for (std::uint32_t size = 1; size <= 8; ++size) {
    for (std::uint32_t unit : {1u, 2u, 4u, 8u}) {
      alignas(8) unsigned char from[32], to[32];
      for (unsigned i = 0; i < 32; ++i) from[i] = static_cast<unsigned char>(17 * i + 200);
      // The unit divides the address, so the offsets are its multiples.
      for (std::uint32_t offset = 0; offset + size <= 24; offset += unit) {
        std::uint64_t want = 0;
        for (std::uint32_t i = 0; i < size; ++i) want |= std::uint64_t{from[offset + i]} << (8 * i);
        EXPECT_EQ(load_bits(from + offset, size, unit), want);
        for (unsigned char& byte : to) byte = 0x5a;
        store_bits(to + offset, want, size, unit);
        for (std::uint32_t i = 0; i < 32; ++i)
          EXPECT_EQ(to[i], i >= offset && i < offset + size ? from[i] : 0x5a);
      }
    }
  }
}

TEST(Unaligned, FindsTheLargestCommonUnit) {
  EXPECT_EQ(common_unit(0), 8u);
  EXPECT_EQ(common_unit(8), 8u);
  EXPECT_EQ(common_unit(4096 | 12), 4u);
  EXPECT_EQ(common_unit(64 | 6), 2u);
  EXPECT_EQ(common_unit(64 | 7), 1u);
  EXPECT_EQ(common_unit(std::uint64_t{1} << 63), 8u);
}

TEST(SharedArithmetic, OnTheHost) {
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_EQ(highest_bit(std::uint64_t{1} << bit), bit);
    EXPECT_EQ(highest_bit((std::uint64_t{1} << bit) | 1), bit);
  }
  for (std::uint64_t a : {0ull, 7ull, 0xffffffffull, 0x100000000ull, ~0ull}) {
    for (std::uint64_t b : {1ull, 3ull, 0xffffffffull, 0x100000001ull}) {
      Quotient got = divide(a, b);
      EXPECT_EQ(got.whole, a / b);
      EXPECT_EQ(got.rest, a % b);
    }
  }
}

}  // namespace
}  // namespace slabload
