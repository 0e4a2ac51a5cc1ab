// Blocks found by box, against looking at all of them.
#include "layout/block_index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/plan_tensor.h"

namespace slabload {
namespace {

std::mt19937_64& source() {
  static std::mt19937_64 random(31);
  return random;
}
std::uint64_t below(std::uint64_t n) { return source()() % n; }

// A shard of up to a few thousand blocks: dimensions cut in strides, or a flat range.
Shard random_shard(Shape& shape) {
  const std::size_t ndim = 1 + below(3);
  shape = {};
  for (std::size_t d = 0; d < ndim; ++d) shape.lengths().push_back(1 + below(ndim == 1 ? 400 : 40));
  const Mesh mesh({{"a", 1 + below(4)}, {"b", 1 + below(3)}});
  TensorLayout layout{{static_cast<int>(below(ndim)), static_cast<int>(below(ndim))}, 0, {1 + below(60), below(20)}};
  if (below(8) == 0) {
    layout = {{TensorLayout::kFlat, -1}, 0};
    layout.flat_total = shape.elements() + below(3);
  }
  Dims at = mesh.coordinate(below(mesh.ranks()));
  return local_shard(shape, mesh, layout, at);
}

TEST(BlockIndex, FindsTheBlocksThatMeetABox) {
  int many = 0;
  for (int i = 0; i < 3000; ++i) {
    Shape shape;
    const Shard shard = random_shard(shape);
    many += shard.blocks.size() > 16;
    const BlockIndex index(shard);
    for (int j = 0; j < 5; ++j) {
      Box within = whole_box(shape);
      for (std::size_t d = 0; d < shape.ndim(); ++d) {
        within.start[d] = below(shape[d]);
        within.extent[d] = 1 + below(shape[d] - within.start[d]);
      }
      std::string found, expected;
      auto line = [](const Box& box, const Box& frame, std::uint64_t offset) {
        return fmt::format("{} {} {}\n", box.text(), frame.text(), offset);
      };
      index.for_each(within, [&](const Box& box, const Box& frame, std::uint64_t offset) {
        found += line(box, frame, offset);
      });
      for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box& frame, std::uint64_t offset) {
        if (!intersect(box, within).empty()) expected += line(box, frame, offset);
      });
      ASSERT_EQ(found, expected) << within.text();
      std::uint64_t before = 0;
      const std::uint64_t flat = below(shape.elements() + 2);
      for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box&, std::uint64_t) {
        before += elements_before(shape, box, flat);
      });
      ASSERT_EQ(index.elements_before(shape, flat), before) << flat;
    }
  }
  EXPECT_GT(many, 300);
}

// The elements of a range of a shard, counted in its memory one by one.
TEST(ShardBoxes, AreTheRangeOfTheShardsMemory) {
  int interleaved = 0;
  for (int i = 0; i < 1500; ++i) {
    Shape shape;
    ShardPlace shard;
    static_cast<Shard&>(shard) = random_shard(shape);
    const std::uint64_t elements = shard.box.elements();
    if (elements == 0 || shape.elements() > 4000) continue;
    interleaved += !shard.stacked();
    // Where each element of the tensor lies in the shard's memory.
    std::vector<std::uint64_t> place(shape.elements(), UINT64_MAX);
    for_each_dense_part(shard.box, shard.blocks, [&](const Box& part, std::uint64_t at) {
      for_each_run(shape, part, [&](std::uint64_t flat, std::uint64_t length) {
        for (std::uint64_t e = 0; e < length; ++e) place[flat + e] = at++;
      });
    });
    FlatRange range{below(elements), 0};
    range.end = range.begin + 1 + below(elements - range.begin);
    std::vector<int> seen(elements);
    for (const Box& box : shard_boxes(shard, range)) {
      for_each_run(shape, box, [&](std::uint64_t flat, std::uint64_t length) {
        for (std::uint64_t e = 0; e < length; ++e) {
          ASSERT_NE(place[flat + e], UINT64_MAX);
          ++seen[place[flat + e]];
        }
      });
    }
    for (std::uint64_t e = 0; e < elements; ++e) ASSERT_EQ(seen[e], e >= range.begin && e < range.end);
    // A shard has its elements in the tensor's order, so what lies before an element of the tensor is a front of it.
    const std::uint64_t flat = below(shape.elements() + 1);
    std::uint64_t before = 0, counted = 0;
    for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box&, std::uint64_t) {
      before += elements_before(shape, box, flat);
    });
    for (std::uint64_t e = 0; e < flat; ++e) counted += place[e] != UINT64_MAX;
    ASSERT_EQ(before, counted);
    for (std::uint64_t e = 0; e < flat; ++e) ASSERT_TRUE(place[e] == UINT64_MAX || place[e] < before);
  }
  EXPECT_GT(interleaved, 100);
}

}  // namespace
}  // namespace slabload
