// Re-layouts: their numbers against worked examples, and what they move against copying element by element.
#include "tensor/relayout.h"

#include <gtest/gtest.h>

#include "fakes/plain_box.h"
#include "fakes/random_case.h"

namespace slabload {
namespace {

using slabload::testing::BoxCopy;
using slabload::testing::copy_plainly;
using slabload::testing::Random;
using slabload::testing::random_box_copy;
using slabload::testing::random_bytes;

struct Dimension {
  std::uint64_t extent, from_step, to_step;
  bool operator==(const Dimension&) const = default;
};
std::vector<Dimension> dimensions(const Relayout& layout) {
  std::vector<Dimension> out;
  for (std::uint32_t d = 0; d < layout.ndim; ++d)
    out.push_back({layout.extent[d], layout.from_step[d], layout.to_step[d]});
  return out;
}
using Dimensions = std::vector<Dimension>;

TEST(Relayout, AWholeBoxIsOneRun) {
  Box box{{2, 3, 4}, {5, 6, 7}};
  Relayout layout = make_relayout(4, box, box, box);
  EXPECT_EQ(layout.runs, 1u);
  EXPECT_EQ(layout.run_bytes, 5u * 6 * 7 * 4);
  EXPECT_EQ(layout.from_offset + layout.to_offset, 0u);
  EXPECT_EQ(dimensions(layout), Dimensions{});
}

TEST(Relayout, AZeroDimensionalBoxIsOneElement) {
  Relayout layout = make_relayout(8, {}, {}, {});
  EXPECT_EQ(layout.runs, 1u);
  EXPECT_EQ(layout.run_bytes, 8u);
  EXPECT_EQ(layout.ndim, 0u);
}

TEST(Relayout, AnEmptyBoxHasNoRuns) {
  EXPECT_EQ(make_relayout(2, {{1, 1}, {3, 0}}, {{0, 0}, {9, 9}}, {{1, 0}, {3, 5}}).runs, 0u);
}

TEST(Relayout, RowsAreOneRunWithOffsets) {
  // Rows 2 and 3 of 4 columns, from rows 1.. to rows 0.. of the same columns.
  Relayout layout = make_relayout(2, {{2, 0}, {2, 4}}, {{1, 0}, {5, 4}}, {{0, 0}, {9, 4}});
  EXPECT_EQ(layout.run_bytes, 2u * 4 * 2);
  EXPECT_EQ(layout.from_offset, 1u * 4 * 2);
  EXPECT_EQ(layout.to_offset, 2u * 4 * 2);
  EXPECT_EQ(layout.ndim, 0u);
}

TEST(Relayout, ColumnsAreOneDimensionOfRuns) {
  // Columns 3..6 of all 10 rows, out of 8 columns, into a buffer of just these.
  Relayout layout = make_relayout(2, {{0, 3}, {10, 3}}, {{0, 0}, {10, 8}}, {{0, 3}, {10, 3}});
  EXPECT_EQ(layout.runs, 10u);
  EXPECT_EQ(layout.run_bytes, 6u);
  EXPECT_EQ(layout.from_offset, 6u);
  EXPECT_EQ(layout.to_offset, 0u);
  EXPECT_EQ(dimensions(layout), (Dimensions{{10, 16, 6}}));
}

TEST(Relayout, DimensionsThatGoOnInBothBuffersJoin) {
  // Columns of two whole outer dimensions: 3 x 10 rows in one go. The dimension of one step between them is
  // nothing.
  Relayout layout = make_relayout(1, {{0, 5, 0, 3}, {3, 1, 10, 4}}, {{0, 5, 0, 0}, {3, 1, 10, 8}},
                                  {{0, 5, 0, 3}, {3, 1, 10, 4}});
  EXPECT_EQ(dimensions(layout), (Dimensions{{30, 8, 4}}));
  // Rows that only one of the buffers has whole keep them apart.
  layout = make_relayout(1, {{0, 0, 3}, {3, 10, 4}}, {{0, 0, 0}, {3, 11, 8}}, {{0, 0, 3}, {3, 10, 4}});
  EXPECT_EQ(dimensions(layout), (Dimensions{{3, 88, 40}, {10, 8, 4}}));
  EXPECT_EQ(layout.runs, 30u);
  EXPECT_EQ(layout.run_bytes, 4u);
}

TEST(Relayout, MovesRandomBoxes) {
  Random random(21);
  for (int i = 0; i < 3000; ++i) {
    BoxCopy c = random_box_copy(random);
    std::uint32_t size = random.of<std::uint32_t>({1, 2, 4, 8});
    std::string from = random_bytes(c.from_box.elements() * size, static_cast<std::uint64_t>(i));
    std::string to(c.to_box.elements() * size, '\x5a');
    std::string want = to;
    if (!c.box.empty()) copy_plainly(size, c.box, from, c.from_box, want, c.to_box);
    Relayout layout = make_relayout(size, c.box, c.from_box, c.to_box);
    relayout(layout, reinterpret_cast<const std::byte*>(from.data()),
             reinterpret_cast<std::byte*>(to.data()));
    ASSERT_EQ(to, want) << c.box.text() << " from " << c.from_box.text() << " to " << c.to_box.text();
    // A kernel finds each run by its number.
    std::uint64_t run = 0;
    for_each_run(layout, [&](RunPlace place) {
      RunPlace found = place_of_run(layout, run++);
      ASSERT_EQ(found.from, place.from);
      ASSERT_EQ(found.to, place.to);
    });
    ASSERT_EQ(run, layout.runs);
    ASSERT_EQ(layout.runs * layout.run_bytes, c.box.elements() * size);
  }
}

}  // namespace
}  // namespace slabload
