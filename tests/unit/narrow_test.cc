// Checked integer arithmetic.
#include "base/narrow.h"

#include <gtest/gtest.h>

#include <random>

#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;

TEST(Narrow, PassesWhatFits) {
  EXPECT_EQ(narrow<int>(std::uint64_t{2147483647}), 2147483647);
  EXPECT_EQ(narrow<std::uint8_t>(255), 255);
  EXPECT_EQ(narrow<std::int8_t>(-128), -128);
  EXPECT_EQ(narrow<std::uint64_t>(std::int64_t{5}), 5u);
  EXPECT_EQ(narrow<std::int64_t>(std::uint64_t{INT64_MAX}), INT64_MAX);
}

TEST(Narrow, RefusesWhatDoesNot) {
  EXPECT_EQ(thrown_error([] { narrow<int>(std::uint64_t{2147483648}); }).status(), Status::internal);
  EXPECT_EQ(thrown_error([] { narrow<std::uint8_t>(256); }).status(), Status::internal);
  EXPECT_EQ(thrown_error([] { narrow<std::uint8_t>(-1); }).status(), Status::internal);
  EXPECT_EQ(thrown_error([] { narrow<std::uint64_t>(std::int64_t{-1}); }).status(), Status::internal);
  EXPECT_EQ(thrown_error([] { narrow<std::int64_t>(UINT64_MAX); }).status(), Status::internal);
  EXPECT_EQ(thrown_error([] { narrow<std::int32_t>(std::int64_t{INT32_MIN} - 1); }).status(),
            Status::internal);
}

TEST(Narrow, ChecksProductsAndSums) {
  std::uint64_t out = 0;
  EXPECT_TRUE(checked_multiply(UINT64_MAX, 1, &out));
  EXPECT_EQ(out, UINT64_MAX);
  EXPECT_TRUE(checked_multiply(1ull << 31, 1ull << 32, &out));
  EXPECT_EQ(out, 1ull << 63);
  EXPECT_FALSE(checked_multiply(1ull << 32, 1ull << 32, &out));
  EXPECT_TRUE(checked_add(UINT64_MAX - 1, 1, &out));
  EXPECT_EQ(out, UINT64_MAX);
  EXPECT_FALSE(checked_add(UINT64_MAX, 1, &out));
}

TEST(Narrow, DividesUp) {
  EXPECT_EQ(ceil_div(0, 3), 0u);
  EXPECT_EQ(ceil_div(1, 3), 1u);
  EXPECT_EQ(ceil_div(3, 3), 1u);
  EXPECT_EQ(ceil_div(4, 3), 2u);
  EXPECT_EQ(ceil_div(UINT64_MAX, 2), 1ull << 63);
  EXPECT_EQ(align_up(0, 8), 0u);
  EXPECT_EQ(align_up(1, 8), 8u);
  EXPECT_EQ(align_up(8, 8), 8u);
  EXPECT_EQ(align_up(10, 7), 14u);
}

TEST(Narrow, ScalesWithoutOverflow) {
  EXPECT_EQ(scale(UINT64_MAX, UINT64_MAX, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(scale(1ull << 62, 6, 8), 3ull << 60);
  EXPECT_EQ(scale(7, 2, 3), 4u);
}

}  // namespace
}  // namespace slabload
