// Lengths per dimension.
#include "tensor/shape.h"

#include <gtest/gtest.h>

namespace slabload {
namespace {

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1u);
  EXPECT_EQ((Shape{7}).elements(), 7u);
  EXPECT_EQ((Shape{151936, 896}).elements(), 136134656u);
  EXPECT_EQ((Shape{3, 0, 5}).elements(), 0u);
  EXPECT_EQ((Shape{2, 3, 5}).elements_from(1), 15u);
  EXPECT_EQ((Shape{2, 3, 5}).elements_from(3), 1u);
}

TEST(Shape, NoticesOverflow) {
  EXPECT_EQ((Shape{1ull << 32, 1ull << 31}).checked_elements(), 1ull << 63);
  EXPECT_FALSE((Shape{1ull << 32, 1ull << 32}).checked_elements().has_value());
  EXPECT_FALSE((Shape{UINT64_MAX, 2}).checked_elements().has_value());
  EXPECT_EQ((Shape{UINT64_MAX}).checked_elements(), UINT64_MAX);
  // A zero does not hide the overflow: the product of the others would be taken somewhere.
  EXPECT_FALSE((Shape{0, 1ull << 32, 1ull << 32}).checked_elements().has_value());
  EXPECT_FALSE((Shape{1ull << 32, 1ull << 32, 0}).checked_elements().has_value());
  EXPECT_EQ((Shape{0, 5}).checked_elements(), 0u);
  EXPECT_EQ(Shape().checked_elements(), 1u);
}

TEST(Shape, PrintsItself) {
  EXPECT_EQ(Shape().text(), "()");
  EXPECT_EQ((Shape{896}).text(), "(896)");
  EXPECT_EQ((Shape{151936, 896}).text(), "(151936, 896)");
  EXPECT_EQ(dims_text(Dims{1, 2, 3, 4, 5, 6}), "(1, 2, 3, 4, 5, 6)");
}

TEST(Shape, ComparesByLengths) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2}) == (Shape{2, 1}));
}

}  // namespace
}  // namespace slabload
