// Synthetic values against the documented formula, an element at a time.
#include "tensor/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace slabload {
namespace {

std::uint64_t splitmix(std::uint64_t x) {
  std::uint64_t z = x + 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Written out per type: bit patterns above the infinity's (e4m3: the all-ones pattern) are NaNs.
bool is_nan_pattern(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::f64:
      return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
    case DType::f32:
      return (bits & 0x7fffffff) > 0x7f800000;
    case DType::f16:
      return (bits & 0x7fff) > 0x7c00;
    case DType::bf16:
      return (bits & 0x7fff) > 0x7f80;
    case DType::f8_e4m3:
      return (bits & 0x7f) == 0x7f;
    case DType::f8_e5m2:
      return (bits & 0x7f) > 0x7c;
    default:
      return false;
  }
}

std::uint64_t top_exponent_bit(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x4000000000000000;
    case DType::f32:
      return 0x40000000;
    case DType::f16:
    case DType::bf16:
      return 0x4000;
    default:
      return 0x40;
  }
}

std::uint64_t expected_bits(std::uint64_t seed, const std::string& name, DType dtype, std::uint64_t index) {
  std::uint64_t key = 14695981039346656037ull ^ splitmix(seed);
  for (unsigned char c : name) key = (key ^ c) * 1099511628211ull;
  std::uint64_t size = dtype_size(dtype);
  std::uint64_t byte = index * size;
  std::uint64_t word = splitmix(key + byte / 8);
  std::uint64_t bits = word >> (8 * (byte % 8));
  if (size < 8) bits &= (std::uint64_t{1} << (8 * size)) - 1;
  if (dtype == DType::boolean) return bits & 1;
  if (is_nan_pattern(dtype, bits)) bits &= ~top_exponent_bit(dtype);
  return bits;
}

std::uint64_t bits_at(const std::vector<unsigned char>& bytes, std::uint64_t i, std::uint32_t size) {
  std::uint64_t bits = 0;
  for (std::uint32_t b = 0; b < size; ++b) bits |= std::uint64_t{bytes[i * size + b]} << (8 * b);
  return bits;
}

std::vector<unsigned char> filled(std::uint64_t seed, const std::string& name, DType dtype,
                                  std::uint64_t begin, std::uint64_t count) {
  std::vector<unsigned char> bytes(count * dtype_size(dtype) + 8, 0xa5);
  SyntheticTensor(seed, name, dtype).fill(begin, count, bytes.data());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(bytes[count * dtype_size(dtype) + i], 0xa5) << "written past the end";
  return bytes;
}

TEST(Synthetic, FollowsTheFormula) {
  std::mt19937_64 random(9);
  for (int d = 0; d < kDTypeCount; ++d) {
    auto dtype = static_cast<DType>(d);
    for (int round = 0; round < 40; ++round) {
      std::uint64_t seed = round < 4 ? static_cast<std::uint64_t>(round) : random();
      std::string name = round % 5 == 0 ? "" : "model.layers." + std::to_string(random() % 100) + ".w\xff";
      // Every alignment of begin and end within a word, and far offsets.
      std::uint64_t begin = round < 16 ? static_cast<std::uint64_t>(round) : random() >> 8;
      std::uint64_t count = random() % 40;
      auto bytes = filled(seed, name, dtype, begin, count);
      for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(bits_at(bytes, i, dtype_size(dtype)), expected_bits(seed, name, dtype, begin + i))
            << dtype_name(dtype) << " at " << begin << "+" << i;
      }
    }
  }
}

// splitmix64 started at 0 is published to begin with e220a8397b1dcdaf.
TEST(Synthetic, TheFormulaUsesTheKnownGenerator) {
  EXPECT_EQ(splitmix(0), 0xe220a8397b1dcdafu);
}

TEST(Synthetic, PartsEqualTheWhole) {
  for (int d = 0; d < kDTypeCount; ++d) {
    auto dtype = static_cast<DType>(d);
    std::uint64_t size = dtype_size(dtype);
    auto whole = filled(7, "w", dtype, 0, 1000);
    for (std::uint64_t cut : {1, 7, 8, 9, 500, 999}) {
      auto head = filled(7, "w", dtype, 0, cut), tail = filled(7, "w", dtype, cut, 1000 - cut);
      ASSERT_EQ(std::memcmp(whole.data(), head.data(), cut * size), 0);
      ASSERT_EQ(std::memcmp(whole.data() + cut * size, tail.data(), (1000 - cut) * size), 0);
    }
  }
}

TEST(Synthetic, HasNoNan) {
  constexpr std::uint64_t kCount = 1 << 17;
  auto bf16 = filled(1, "w", DType::bf16, 0, kCount), f16 = filled(1, "w", DType::f16, 0, kCount);
  auto f32 = filled(1, "w", DType::f32, 0, kCount), f64 = filled(1, "w", DType::f64, 0, kCount);
  auto e4m3 = filled(1, "w", DType::f8_e4m3, 0, kCount), e5m2 = filled(1, "w", DType::f8_e5m2, 0, kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    float single;
    double real;
    auto upper = static_cast<std::uint32_t>(bits_at(bf16, i, 2) << 16);
    std::memcpy(&single, &upper, 4);
    ASSERT_FALSE(std::isnan(single));
    std::memcpy(&single, &f32[4 * i], 4);
    ASSERT_FALSE(std::isnan(single));
    std::memcpy(&real, &f64[8 * i], 8);
    ASSERT_FALSE(std::isnan(real));
    ASSERT_FALSE(is_nan_pattern(DType::f16, bits_at(f16, i, 2)));
    ASSERT_FALSE(is_nan_pattern(DType::f8_e4m3, e4m3[i]));
    ASSERT_FALSE(is_nan_pattern(DType::f8_e5m2, e5m2[i]));
  }
}

TEST(Synthetic, CoversEveryPatternThatIsNoNan) {
  for (DType dtype :
       {DType::u8, DType::i8, DType::f8_e4m3, DType::f8_e5m2, DType::bf16, DType::f16, DType::u16}) {
    std::uint32_t size = dtype_size(dtype);
    std::uint64_t patterns = size == 1 ? 256 : 65536;
    std::uint64_t count = patterns * 32;  // a pattern is missed with probability e^-32
    auto bytes = filled(3, "cover", dtype, 0, count);
    std::vector<bool> seen(patterns, false);
    for (std::uint64_t i = 0; i < count; ++i) seen[bits_at(bytes, i, size)] = true;
    for (std::uint64_t p = 0; p < patterns; ++p) {
      ASSERT_EQ(seen[p], !is_nan_pattern(dtype, p)) << dtype_name(dtype) << " pattern " << p;
    }
  }
  auto bools = filled(3, "cover", DType::boolean, 0, 1000);
  bools.resize(1000);
  EXPECT_EQ((std::set<unsigned char>(bools.begin(), bools.end())), (std::set<unsigned char>{0, 1}));
}

TEST(Synthetic, DiffersByNameSeedAndOffset) {
  auto base = filled(1, "a", DType::u64, 0, 64);
  EXPECT_NE(base, filled(1, "b", DType::u64, 0, 64));
  EXPECT_NE(base, filled(2, "a", DType::u64, 0, 64));
  EXPECT_NE(base, filled(1, "a", DType::u64, 1, 64));
}

}  // namespace
}  // namespace slabload
