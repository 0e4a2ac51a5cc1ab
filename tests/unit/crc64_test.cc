// CRC-64/XZ against a bit-by-bit implementation of its definition, whole and in parts.
#include "base/crc64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace slabload {
namespace {

// The definition: polynomial 0x42f0e1eba9ea3693, bits of each byte lowest first, register started and ended
// inverted.
std::uint64_t reference_crc(const std::string& bytes) {
  std::uint64_t crc = ~std::uint64_t{0};
  for (unsigned char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      // The register is held unreflected: bit i of the usual reflected form is bit 63 - i here.
      bool carry = ((crc >> 63) & 1) != ((byte >> bit) & 1);
      crc = (crc << 1) ^ (carry ? 0x42f0e1eba9ea3693 : 0);
    }
  }
  std::uint64_t reflected = 0;
  for (int bit = 0; bit < 64; ++bit) reflected |= ((crc >> bit) & 1) << (63 - bit);
  return ~reflected;
}

std::uint64_t crc_of(const std::string& bytes) {
  return crc64_finish(crc64_part(bytes.data(), bytes.size()), bytes.size());
}

std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST(Crc64, HasTheCheckValue) {
  EXPECT_EQ(crc_of("123456789"), 0x995dc9bbdf1939fau);
  EXPECT_EQ(reference_crc("123456789"), 0x995dc9bbdf1939fau);
  EXPECT_EQ(crc_of(""), 0u);
}

TEST(Crc64, EqualsTheDefinition) {
  std::mt19937_64 random(1);
  for (std::size_t size = 0; size < 300; ++size) {
    std::string bytes = random_bytes(random, size);
    ASSERT_EQ(crc_of(bytes), reference_crc(bytes)) << size;
  }
  for (std::size_t size : {4095, 4096, 4097, 70000}) {
    std::string bytes = random_bytes(random, size);
    ASSERT_EQ(crc_of(bytes), reference_crc(bytes)) << size;
  }
  EXPECT_EQ(crc_of(std::string(5000, '\0')), reference_crc(std::string(5000, '\0')));
  EXPECT_EQ(crc_of(std::string(5000, '\xff')), reference_crc(std::string(5000, '\xff')));
}

// As the loader does it: each part shifted by the bytes behind it, all XORed, in any order.
TEST(Crc64, CombinesFromPartsInAnyOrder) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = random_bytes(random, random() % 3000);
    std::vector<std::size_t> cuts{0, bytes.size()};
    for (std::size_t i = random() % 9; i > 0; --i) cuts.push_back(random() % (bytes.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::size_t> order(cuts.size() - 1);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::uint64_t all = 0;
    for (std::size_t i : order) {
      all ^=
          crc64_shift(crc64_part(bytes.data() + cuts[i], cuts[i + 1] - cuts[i]), bytes.size() - cuts[i + 1]);
    }
    ASSERT_EQ(crc64_finish(all, bytes.size()), reference_crc(bytes));
  }
}

TEST(Crc64, AppendsOneAfterTheOther) {
  std::mt19937_64 random(3);
  std::string a = random_bytes(random, 1000), b = random_bytes(random, 77), c = random_bytes(random, 1);
  std::uint64_t crc = crc64_part(a.data(), a.size());
  crc = crc64_append(crc, crc64_part(b.data(), b.size()), b.size());
  crc = crc64_append(crc, crc64_part(c.data(), c.size()), c.size());
  EXPECT_EQ(crc64_finish(crc, a.size() + b.size() + c.size()), reference_crc(a + b + c));
}

TEST(Crc64, RepeatsAPart) {
  for (const std::string part : {"", "x", "abcdefgh", "123456789"}) {
    const std::uint64_t crc = crc64_part(part.data(), part.size());
    std::string all;
    for (std::uint64_t count = 0; count < 70; ++count, all += part)
      EXPECT_EQ(crc64_repeat(crc, part.size(), count), crc64_part(all.data(), all.size())) << part << " x " << count;
  }
  // As many as there can be: 2^63 - 1 bytes are 7 x 49 x 73 x ... of one; the same in two steps.
  const std::uint64_t one = crc64_part("z", 1), seven = crc64_repeat(one, 1, 7);
  const std::uint64_t count = ((std::uint64_t{1} << 63) - 1) / 7;
  EXPECT_EQ(crc64_repeat(seven, 7, count), crc64_repeat(one, 1, 7 * count));
}

TEST(Crc64, ShiftsOverHugeGaps) {
  std::string bytes = "slab";
  std::uint64_t crc = crc64_part(bytes.data(), bytes.size());
  EXPECT_EQ(crc64_shift(crc, 0), crc);
  std::string zeros = bytes + std::string(1000, '\0');
  EXPECT_EQ(crc64_shift(crc, 1000), crc64_part(zeros.data(), zeros.size()));
  std::uint64_t half = std::uint64_t{1} << 62;
  EXPECT_EQ(crc64_shift(crc64_shift(crc, half), half + 5), crc64_shift(crc, 2 * half + 5));
  // x has the order 2^k - 1 of its polynomial's factors at most, so a shift by 2^63 must not lose the
  // register.
  EXPECT_NE(crc64_shift(crc, std::uint64_t{1} << 63), 0u);
}

TEST(Crc64, SeesASwapOfParts) {
  std::string a(64, 'a'), b(64, 'b');
  EXPECT_NE(crc_of(a + b), crc_of(b + a));
  EXPECT_NE(crc_of("abc"), crc_of(std::string("\0abc", 4)));
}

}  // namespace
}  // namespace slabload
