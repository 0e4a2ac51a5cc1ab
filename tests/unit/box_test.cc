// Boxes, flat ranges and runs against brute force over every element.
#include "tensor/box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace slabload {
namespace {

// Every coordinate of a box, row-major: an odometer, not the code under test.
std::vector<Dims> coordinates(const Box& box) {
  std::vector<Dims> out;
  for (std::uint64_t e : box.extent) {
    if (e == 0) return out;
  }
  Dims at = box.start;
  for (;;) {
    out.push_back(at);
    std::size_t d = at.size();
    for (;;) {
      if (d == 0) return out;
      --d;
      if (++at[d] < box.start[d] + box.extent[d]) break;
      at[d] = box.start[d];
    }
  }
}

// Position of a coordinate in the row-major listing of the whole shape.
std::uint64_t position(const Shape& shape, const Dims& at) {
  std::uint64_t index = 0, weight = 1;
  for (std::size_t d = shape.ndim(); d-- > 0;) {
    index += at[d] * weight;
    weight *= shape[d];
  }
  return index;
}

std::vector<std::uint64_t> positions(const Shape& shape, const Box& box) {
  std::vector<std::uint64_t> out;
  for (const Dims& at : coordinates(box)) out.push_back(position(shape, at));
  return out;
}

Shape random_shape(std::mt19937_64& random, bool allow_zero) {
  Dims lengths(random() % 5);
  for (auto& n : lengths) n = random() % 6 + (allow_zero ? 0 : 1);
  return Shape(lengths);
}

Box random_box(std::mt19937_64& random, const Shape& shape) {
  Box box = whole_box(shape);
  for (std::size_t d = 0; d < shape.ndim(); ++d) {
    box.start[d] = random() % (shape[d] + 1);
    box.extent[d] = random() % (shape[d] - box.start[d] + 1);
  }
  return box;
}

void check_flat_boxes(const Shape& shape, FlatRange range) {
  SCOPED_TRACE(shape.text() + " " + std::to_string(range.begin) + ".." + std::to_string(range.end));
  std::vector<Box> boxes = flat_boxes(shape, range);
  std::size_t ndim = shape.ndim();
  ASSERT_LE(boxes.size(), ndim == 0 ? 1 : 2 * ndim - 1);
  std::uint64_t next = range.begin;
  for (const Box& box : boxes) {
    ASSERT_EQ(box.ndim(), ndim);
    auto covered = positions(shape, box);
    ASSERT_FALSE(covered.empty());
    for (std::uint64_t p : covered) ASSERT_EQ(p, next++) << box.text();
  }
  ASSERT_EQ(next, std::max(range.begin, range.end));
}

TEST(Box, FlatRangesOfEveryKind) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{1, 1, 1}, Shape{3, 4}, Shape{4, 1},
                             Shape{1, 5}, Shape{2, 3, 4}, Shape{3, 1, 2, 2}, Shape{2, 2, 2, 2}}) {
    std::uint64_t n = shape.elements();
    for (std::uint64_t begin = 0; begin <= n; ++begin) {
      for (std::uint64_t end = begin; end <= n; ++end) check_flat_boxes(shape, {begin, end});
    }
  }
}

TEST(Box, FlatRangesOfRandomShapes) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 3000; ++i) {
    Shape shape = random_shape(random, true);
    std::uint64_t n = shape.elements();
    std::uint64_t begin = random() % (n + 1), end = random() % (n + 1);
    check_flat_boxes(shape, {std::min(begin, end), std::max(begin, end)});
  }
}

TEST(Box, AnEmptyRangeHasNoBoxes) {
  EXPECT_TRUE(flat_boxes(Shape{3, 4}, {5, 5}).empty());
  EXPECT_TRUE(flat_boxes(Shape{3, 0}, {0, 0}).empty());
  EXPECT_TRUE(flat_boxes(Shape{}, {0, 0}).empty());
  EXPECT_EQ(flat_boxes(Shape{}, {0, 1}).size(), 1u);
}

TEST(Box, FlatRangesWithinABox) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    Shape shape = random_shape(random, false);
    Box outer = random_box(random, shape);
    std::vector<Dims> all = coordinates(outer);
    std::uint64_t begin = random() % (all.size() + 1);
    std::uint64_t end = begin + random() % (all.size() - begin + 1);
    std::vector<Dims> got;
    for (const Box& box : flat_boxes_in(outer, {begin, end})) {
      for (Dims& at : coordinates(box)) got.push_back(at);
    }
    ASSERT_TRUE(std::equal(got.begin(), got.end(), all.begin() + static_cast<std::ptrdiff_t>(begin),
                           all.begin() + static_cast<std::ptrdiff_t>(end)))
        << shape.text() << outer.text();
  }
}

TEST(Box, RunsCoverTheBoxAndAreTheLongest) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 3000; ++i) {
    Shape shape = random_shape(random, true);
    Box box = random_box(random, shape);
    SCOPED_TRACE(shape.text() + box.text());
    std::vector<std::uint64_t> expected = positions(shape, box);
    std::vector<std::uint64_t> got;
    std::uint64_t runs = 0;
    for_each_run(shape, box, [&](std::uint64_t begin, std::uint64_t length) {
      ++runs;
      for (std::uint64_t k = 0; k < length; ++k) got.push_back(begin + k);
    });
    ASSERT_EQ(got, expected);
    std::uint64_t breaks = expected.empty() ? 0 : 1;
    for (std::size_t k = 1; k < expected.size(); ++k) breaks += expected[k] != expected[k - 1] + 1;
    ASSERT_EQ(runs, breaks);
    RunPattern pattern = runs_of(shape, box);
    ASSERT_EQ(pattern.count, breaks);
    ASSERT_EQ(breaks == 0 ? 0 : pattern.length * pattern.count, expected.size());
  }
}

TEST(Box, IntersectsLikeSetsOfElements) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    Shape shape = random_shape(random, true);
    Box a = random_box(random, shape), b = random_box(random, shape);
    auto in_a = positions(shape, a), in_b = positions(shape, b);
    std::vector<std::uint64_t> expected;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(expected));
    Box common = intersect(a, b);
    ASSERT_EQ(positions(shape, common), expected) << a.text() << b.text();
    ASSERT_EQ(common.empty(), expected.empty());
    ASSERT_EQ(common.elements(), expected.size());
  }
}

TEST(Box, FlatIndexIsRowMajor) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 200; ++i) {
    Shape shape = random_shape(random, false);
    std::uint64_t next = 0;
    for (const Dims& at : coordinates(whole_box(shape))) ASSERT_EQ(flat_index(shape, at), next++);
  }
}

TEST(Box, CountsItsElementsBeforeAPosition) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 1000; ++i) {
    Shape shape = random_shape(random, true);
    Box box = random_box(random, shape);
    const auto all = positions(shape, box);
    for (std::uint64_t flat = 0; flat <= shape.elements() + 1; flat += 1 + random() % 7) {
      const auto before = std::count_if(all.begin(), all.end(), [&](std::uint64_t p) { return p < flat; });
      ASSERT_EQ(elements_before(shape, box, flat), static_cast<std::uint64_t>(before)) << box.text() << flat;
    }
  }
}

TEST(Box, PrintsItself) {
  EXPECT_EQ((Box{{0, 128}, {4, 128}}).text(), "[0:4, 128:256]");
  EXPECT_EQ(Box{}.text(), "[]");
  EXPECT_EQ(whole_box(Shape{3, 5}).text(), "[0:3, 0:5]");
}

}  // namespace
}  // namespace slabload
