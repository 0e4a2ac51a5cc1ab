// Coverage says exactly what counting every element says.
#include "plan/coverage.h"

#include <gtest/gtest.h>

#include <map>

#include "fakes/random_case.h"

namespace slabload {
namespace {

using slabload::testing::Random;

// How often each element of the space 0..8 per dimension is covered.
using Grid = std::map<std::vector<std::uint64_t>, int>;

void count(Grid& grid, const Box& box, std::vector<std::uint64_t> at = {}) {
  std::size_t d = at.size();
  if (d == box.ndim()) {
    ++grid[at];
    return;
  }
  for (std::uint64_t i = 0; i < box.extent[d]; ++i) {
    std::vector<std::uint64_t> next = at;
    next.push_back(box.start[d] + i);
    count(grid, box, next);
  }
}

bool counted(const std::vector<Box>& boxes, const Box& whole, int times) {
  Grid have, want;
  for (const Box& box : boxes) count(have, box);
  count(want, whole);
  for (auto& [at, n] : want) n = times;
  return have == want;
}

bool covered(const std::vector<Box>& boxes, const Box& whole, std::uint64_t times) {
  Coverage coverage;
  for (const Box& box : boxes) coverage.add(box);
  return coverage.is_exactly(whole, times);
}

// Cuts a box into a random number of parts.
void split(Random& random, const Box& box, std::vector<Box>& out) {
  std::size_t d = box.ndim() == 0 ? 0 : random.below(box.ndim());
  if (box.ndim() == 0 || box.extent[d] < 2 || random.one_in(4)) {
    out.push_back(box);
    return;
  }
  std::uint64_t cut = 1 + random.below(box.extent[d] - 1);
  Box low = box, high = box;
  low.extent[d] = cut;
  high.start[d] += cut;
  high.extent[d] -= cut;
  split(random, low, out);
  split(random, high, out);
}

Box random_box(Random& random, std::size_t ndim, std::uint64_t most) {
  Box box;
  for (std::size_t d = 0; d < ndim; ++d) {
    box.start.push_back(random.below(3));
    box.extent.push_back(1 + random.below(most));
  }
  return box;
}

TEST(Coverage, AcceptsEveryPartition) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    Box whole = random_box(random, random.below(5), 5);
    std::vector<Box> boxes;
    std::uint64_t times = 1 + random.below(3);
    for (std::uint64_t t = 0; t < times; ++t) split(random, whole, boxes);
    EXPECT_TRUE(covered(boxes, whole, times)) << whole.text();
    EXPECT_FALSE(covered(boxes, whole, times + 1)) << whole.text();
    EXPECT_FALSE(covered(boxes, whole, times - 1)) << whole.text();
  }
}

TEST(Coverage, RejectsGapsOverlapsAndExtraBoxes) {
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    Box whole = random_box(random, 1 + random.below(4), 5);
    std::vector<Box> boxes;
    split(random, whole, boxes);
    std::size_t k = random.below(boxes.size());
    std::size_t d = random.below(whole.ndim());
    auto broken = [&](auto&& change) {
      std::vector<Box> copy = boxes;
      change(copy);
      ASSERT_FALSE(counted(copy, whole, 1));
      EXPECT_FALSE(covered(copy, whole, 1)) << whole.text() << " of " << boxes.size();
    };
    broken([&](auto& b) { b.erase(b.begin() + static_cast<std::ptrdiff_t>(k)); });
    broken([&](auto& b) { b.push_back(b[k]); });
    broken([&](auto& b) { b[k].start[d] += 1; });
    broken([&](auto& b) { b[k].extent[d] += 1; });
    broken([&](auto& b) { b[k].extent[d] -= 1; });
    broken([&](auto& b) { b.push_back(random_box(random, whole.ndim(), 2)); });
    // One element beyond each end.
    broken([&](auto& b) {
      Box beyond = whole;
      beyond.start[d] += whole.extent[d];
      beyond.extent[d] = 1;
      b.push_back(beyond);
    });
  }
}

TEST(Coverage, AgreesWithCountingForAnyBoxes) {
  Random random(3);
  int exact = 0;
  for (int i = 0; i < 20000; ++i) {
    Box whole = random_box(random, random.below(3), 3);
    std::vector<Box> boxes;
    for (std::uint64_t n = random.below(4); n > 0; --n) boxes.push_back(random_box(random, whole.ndim(), 3));
    bool truth = counted(boxes, whole, 1);
    exact += truth;
    ASSERT_EQ(covered(boxes, whole, 1), truth) << whole.text();
  }
  EXPECT_GT(exact, 100);
}

TEST(Coverage, EmptyBoxesDoNotCount) {
  Box none{Dims{4, 0}, Dims{0, 3}};
  EXPECT_TRUE(covered({}, none, 1));
  EXPECT_TRUE(covered({none, none}, none, 1));
  Box some{Dims{0, 0}, Dims{4, 3}};
  EXPECT_TRUE(covered({some, none}, some, 1));
  EXPECT_FALSE(covered({none}, some, 1));
  EXPECT_FALSE(covered({some}, none, 1));
}

TEST(Coverage, ScalarsAreOneElement) {
  EXPECT_TRUE(covered({Box{}}, Box{}, 1));
  EXPECT_FALSE(covered({}, Box{}, 1));
  EXPECT_FALSE(covered({Box{}, Box{}}, Box{}, 1));
}

// A box and its mirror image have the same corners in each dimension by itself.
TEST(Coverage, TellsDimensionsApart) {
  Box wide{Dims{0, 0}, Dims{2, 3}};
  Box tall{Dims{0, 0}, Dims{3, 2}};
  EXPECT_FALSE(covered({tall}, wide, 1));
  // Opposite quadrants in place of the other two.
  std::vector<Box> diagonal{{Dims{0, 0}, Dims{2, 2}}, {Dims{2, 2}, Dims{2, 2}}};
  std::vector<Box> other{{Dims{0, 2}, Dims{2, 2}}, {Dims{2, 0}, Dims{2, 2}}};
  Box square{Dims{0, 0}, Dims{4, 4}};
  EXPECT_FALSE(covered({diagonal[0], diagonal[1], diagonal[0], diagonal[1]}, square, 1));
  EXPECT_TRUE(covered({diagonal[0], diagonal[1], other[0], other[1]}, square, 1));
}

TEST(Coverage, TakesLengthsNearTheEndOfSixtyFourBits) {
  std::uint64_t huge = std::uint64_t{1} << 62;
  Box whole{Dims{0}, Dims{huge}};
  EXPECT_TRUE(covered({{Dims{0}, Dims{huge - 1}}, {Dims{huge - 1}, Dims{1}}}, whole, 1));
  EXPECT_FALSE(covered({{Dims{0}, Dims{huge - 1}}, {Dims{huge - 2}, Dims{1}}}, whole, 1));
}

}  // namespace
}  // namespace slabload
