// Shards of any layout against lists of indices: what a rank holds, and where it lies in its memory.
#include "layout/shard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace slabload {
namespace {

using ::testing::ElementsAre;
using List = std::vector<std::uint64_t>;

// torch.chunk of a list: pieces of ceil(n/k) until nothing is left; what is missing is empty.
List chunk(const List& list, std::uint64_t k, std::uint64_t r) {
  const std::uint64_t step = (list.size() + k - 1) / k;
  List out;
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    if (i / step == r) out.push_back(list[i]);
  }
  return out;
}

List strided(const List& list, std::uint64_t factor, std::uint64_t k, std::uint64_t r) {
  List out;
  for (std::uint64_t f = 0; f < factor; ++f) {
    for (std::uint64_t i : chunk(chunk(list, factor, f), k, r)) out.push_back(i);
  }
  return out;
}

struct ShardCase {
  Shape shape;
  Mesh mesh;
  TensorLayout layout;
  std::string text() const {
    std::string out = shape.text() + " " + mesh.text() + " dims";
    for (int d : layout.dims) out += fmt::format(" {}", d);
    for (auto f : layout.factors) out += fmt::format(" /{}", f);
    for (auto a : layout.order) out += fmt::format(" ^{}", a);
    return out + fmt::format(" flat {}+ of {}", layout.flat_before, layout.flat_total);
  }
};

// The flat indices of a rank's elements, in the order in which its memory holds them.
List reference(const ShardCase& c, const Dims& at) {
  const TensorLayout& layout = c.layout;
  std::vector<List> lists(c.shape.ndim());
  for (std::size_t d = 0; d < lists.size(); ++d) {
    lists[d].resize(c.shape[d]);
    std::iota(lists[d].begin(), lists[d].end(), 0u);
  }
  for (std::size_t i = 0; i < c.mesh.ndim(); ++i) {
    const std::size_t axis = layout.order.empty() ? i : layout.order[i];
    const std::uint64_t k = c.mesh.axis(axis).size;
    const int d = layout.dims[axis];
    if (d == TensorLayout::kFlat) {
      List all(layout.flat_total), out;
      std::iota(all.begin(), all.end(), 0u);
      for (std::uint64_t e : chunk(all, k, at[axis])) {
        if (e >= layout.flat_before && e < layout.flat_before + c.shape.elements())
          out.push_back(e - layout.flat_before);
      }
      return out;
    }
    if (d < 0) continue;
    List& list = lists[static_cast<std::size_t>(d)];
    const std::uint64_t factor = layout.factors.empty() ? 0 : layout.factors[axis];
    list = factor == 0 ? chunk(list, k, at[axis]) : strided(list, factor, k, at[axis]);
  }
  List out{0};
  for (std::size_t d = 0; d < lists.size(); ++d) {
    List next;
    for (std::uint64_t e : out) {
      for (std::uint64_t i : lists[d]) next.push_back(e * c.shape[d] + i);
    }
    out = std::move(next);
  }
  return out;
}

// Calls visit(coordinate in the box) in row-major order.
template <typename Visit>
void for_each_element(const Box& box, Visit&& visit) {
  if (box.empty()) return;
  Dims at = box.start;
  while (true) {
    visit(at);
    std::size_t d = box.ndim();
    while (d > 0 && ++at[d - 1] == box.start[d - 1] + box.extent[d - 1]) {
      --d;
      at[d] = box.start[d];
    }
    if (d == 0) return;
  }
}

List elements_of(const Shape& shape, const Box& box) {
  List out;
  for_each_element(box, [&](const Dims& at) { out.push_back(flat_index(shape, at)); });
  return out;
}

// The same as reference(), from the blocks of a shard and where they say they lie.
List memory_of(const Shape& shape, const Shard& shard) {
  List out(shard.box.elements(), UINT64_MAX);
  for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box& frame, std::uint64_t offset) {
    EXPECT_FALSE(box.empty());
    for_each_element(box, [&](const Dims& at) {
      std::uint64_t position = 0;
      for (std::size_t d = 0; d < at.size(); ++d)
        position = position * frame.extent[d] + (at[d] - frame.start[d]);
      position += offset;
      ASSERT_LT(position, out.size());
      ASSERT_EQ(out[position], UINT64_MAX) << "two elements in one place";
      out[position] = flat_index(shape, at);
    });
  });
  return out;
}

ShardCase random_shard_case(std::mt19937_64& random) {
  auto below = [&](std::uint64_t n) { return random() % n; };
  constexpr std::uint64_t kLengths[] = {0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13};
  std::vector<MeshAxis> axes(1 + below(4));
  for (std::size_t i = 0; i < axes.size(); ++i)
    axes[i] = {std::string(1, static_cast<char>('a' + i)), 1 + below(4)};
  Dims lengths(below(4));
  for (auto& n : lengths) n = kLengths[below(std::size(kLengths))];
  TensorLayout layout;
  layout.dims.assign(axes.size(), -1);
  const std::uint64_t kind = below(4);
  if (kind == 0 && !lengths.empty()) {
    layout.dims[below(axes.size())] = TensorLayout::kFlat;
    layout.flat_total = Shape(lengths).elements();
    if (below(2) == 0) {
      layout.flat_before = below(9);
      layout.flat_total += layout.flat_before + below(9);
    }
    return {Shape(lengths), Mesh(axes), layout};
  }
  for (int& d : layout.dims) d = static_cast<int>(below(lengths.size() + 1)) - 1;
  if (kind == 1) {
    layout.factors.assign(axes.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (layout.dims[i] >= 0 && below(2) == 0) layout.factors[i] = 1 + below(5);
    }
  }
  if (kind == 2) {
    layout.order.resize(axes.size());
    std::iota(layout.order.begin(), layout.order.end(), std::uint8_t{0});
    std::shuffle(layout.order.begin(), layout.order.end(), random);
  }
  return {Shape(lengths), Mesh(axes), layout};
}

bool on_replicated_axes_0(const ShardCase& c, const Dims& at) {
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    if (c.layout.dims[axis] == -1 && at[axis] != 0) return false;
  }
  return true;
}

constexpr int kCases = 3000;

TEST(Shard, HoldsWhatListsOfIndicesSayInTheirOrder) {
  std::mt19937_64 random(21);
  for (int i = 0; i < kCases; ++i) {
    ShardCase c = random_shard_case(random);
    SCOPED_TRACE(c.text());
    for (std::uint64_t rank = 0; rank < c.mesh.ranks(); ++rank) {
      const Dims at = c.mesh.coordinate(rank);
      const Shard shard = local_shard(c.shape, c.mesh, c.layout, at);
      const List expected = reference(c, at);
      ASSERT_EQ(memory_of(c.shape, shard), expected) << rank;
      ASSERT_EQ(shard.empty(), expected.empty());
      if (shard.blocks.empty()) {
        ASSERT_EQ(elements_of(c.shape, shard.box), expected);
      }
      std::uint64_t product = 1;
      for (std::uint64_t n : shard.lengths()) product *= n;
      ASSERT_EQ(product, expected.size());
      // What "stacked" promises: block after block, each dense.
      if (shard.stacked()) {
        List stack;
        for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box&, std::uint64_t) {
          for (std::uint64_t e : elements_of(c.shape, box)) stack.push_back(e);
        });
        ASSERT_EQ(stack, expected);
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Shard, ReplicaSetsCoverTheTensorOnce) {
  std::mt19937_64 random(22);
  for (int i = 0; i < kCases; ++i) {
    ShardCase c = random_shard_case(random);
    std::vector<int> seen(c.shape.elements(), 0);
    std::uint64_t largest = 0;
    for (std::uint64_t rank = 0; rank < c.mesh.ranks(); ++rank) {
      const Dims at = c.mesh.coordinate(rank);
      if (!on_replicated_axes_0(c, at)) continue;
      const Shard shard = local_shard(c.shape, c.mesh, c.layout, at);
      largest = std::max(largest, shard.box.elements());
      for (std::uint64_t e : memory_of(c.shape, shard)) ++seen[e];
    }
    ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; })) << c.text();
    ASSERT_EQ(largest_shard(c.shape, c.mesh, c.layout), largest) << c.text();
  }
}

TEST(ForEachShard, VisitsWhatBlocksHaveOfTheBoxInTheirOrder) {
  std::mt19937_64 random(23);
  for (int i = 0; i < kCases; ++i) {
    ShardCase c = random_shard_case(random);
    Box within = whole_box(c.shape);
    if (i % 3 != 0) {
      for (std::size_t d = 0; d < within.ndim(); ++d) {
        within.start[d] = random() % (c.shape[d] + 1);
        within.extent[d] = random() % (c.shape[d] - within.start[d] + 1);
      }
    }
    std::map<std::uint64_t, std::vector<std::string>> expected, visited;
    for (std::uint64_t rank = 0; rank < c.mesh.ranks(); ++rank) {
      const Dims at = c.mesh.coordinate(rank);
      if (!on_replicated_axes_0(c, at)) continue;
      const Shard shard = local_shard(c.shape, c.mesh, c.layout, at);
      for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box&, std::uint64_t) {
        const Box met = intersect(box, within);
        if (!met.empty()) expected[rank].push_back(met.text());
      });
    }
    std::uint64_t last = UINT64_MAX;
    for_each_shard(c.shape, c.mesh, c.layout, within, [&](const Dims& at, const Box& box) {
      const std::uint64_t rank = c.mesh.rank_of(at);
      ASSERT_TRUE(rank == last || !visited.contains(rank)) << "a shard's blocks come together";
      last = rank;
      visited[rank].push_back(box.text());
    });
    ASSERT_EQ(visited, expected) << c.text() << " within " << within.text();
  }
}

// "{0,2}": the rows of dimension 0 that each rank holds.
std::vector<std::string> rows(std::uint64_t n, const std::string& mesh_text, const TensorLayout& layout) {
  const Mesh mesh = Mesh::parse(mesh_text);
  std::vector<std::string> out;
  for (std::uint64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const Shard shard = local_shard(Shape{n}, mesh, layout, mesh.coordinate(rank));
    std::string text;
    for (std::uint64_t row : memory_of(Shape{n}, shard))
      text += (text.empty() ? "" : ",") + std::to_string(row);
    out.push_back(text);
  }
  return out;
}

TEST(Shard, WorkedExamplesOfStridedShards) {
  const TensorLayout outer{{0, 0}, 0, {2, 0}};  // SS(0,2) S(0)
  EXPECT_THAT(rows(8, "dp=2,tp=2", outer), ElementsAre("0,1", "4,5", "2,3", "6,7"));
  EXPECT_THAT(rows(5, "dp=2,tp=2", outer), ElementsAre("0,1", "3", "2", "4"));
  const TensorLayout inner{{0, 0}, 0, {0, 2}};  // S(0) SS(0,2)
  EXPECT_THAT(rows(8, "dp=2,tp=2", inner), ElementsAre("0,2", "1,3", "4,6", "5,7"));
  EXPECT_THAT(rows(8, "tp=2", {{0}, 0, {2}}), ElementsAre("0,1,4,5", "2,3,6,7"));
}

TEST(Shard, WorkedExampleOfTheStorageRule) {
  TensorLayout formula{{0, 0}, 0, {2, 0}};
  EXPECT_THAT(rows(7, "dp=3,tp=2", formula), ElementsAre("0,1", "4", "2,3", "5", "6", ""));
  TensorLayout storage{{0, 0}, 0, {}, {1, 0}};
  EXPECT_THAT(rows(7, "dp=3,tp=2", storage), ElementsAre("0,1", "4", "2,3", "5", "", "6"));
}

TEST(Shard, FlatRangesAreFewBoxes) {
  TensorLayout flat{{TensorLayout::kFlat}, 0};
  flat.flat_total = 24;
  const Mesh mesh = Mesh::parse("dp_shard=5");
  const Shard shard = local_shard(Shape{4, 6}, mesh, flat, Dims{1});  // elements 5..10
  ASSERT_EQ(shard.blocks.size(), 2u);
  EXPECT_EQ(shard.box.text(), "[0:5]");
  EXPECT_EQ(shard.blocks[0].box.text(), "[0:1, 5:6]");
  EXPECT_EQ(shard.blocks[1].box.text(), "[1:2, 0:4]");
  EXPECT_EQ(shard.blocks[1].offset, 1u);
  EXPECT_THAT(shard.lengths(), ElementsAre(5));
  EXPECT_TRUE(local_shard(Shape{0, 6}, mesh, {{TensorLayout::kFlat}, 0}, Dims{1}).empty());
}

TEST(Shard, AnEmptyOneStartsAtTheEnd) {
  const Mesh mesh = Mesh::parse("a=2,b=4");
  const Shard strided = local_shard(Shape{2, 5}, mesh, {{1, 0}, 0, {2, 0}}, Dims{1, 3});
  EXPECT_TRUE(strided.empty());
  EXPECT_EQ(strided.box.start[0], 2u);
  EXPECT_THAT(strided.lengths(), ElementsAre(0, 2));
}

// 4 indices in 3 chunks for 4 ranks give at most 2, but 3 give 3: the first rank's shard is not the largest.
TEST(LargestShard, MayBeAnotherThanTheFirst) {
  const Mesh mesh = Mesh::parse("a=2,b=4");
  const TensorLayout layout{{0, 0}, 0, {0, 3}};
  EXPECT_EQ(local_shard(Shape{7}, mesh, layout, Dims{0, 0}).box.elements(), 2u);
  EXPECT_EQ(largest_shard(Shape{7}, mesh, layout), 3u);
}

TEST(LargestShard, TakesHugeSizes) {
  const Mesh mesh = Mesh::parse("a=64,b=256");
  EXPECT_EQ(largest_shard(Shape{1ull << 40}, mesh, {{0, 0}, 0, {3, 0}}), (1ull << 26) + 1);
  TensorLayout flat{{-1, TensorLayout::kFlat}, 0};
  flat.flat_before = 5;
  flat.flat_total = 1ull << 40;
  EXPECT_EQ(largest_shard(Shape{1000, 1000}, mesh, flat), 1000u * 1000);
}

TEST(ForEachShard, CostsWhatItVisitsInAnyLayout) {
  int visits = 0;
  auto count = [&](const Dims&, const Box&) { ++visits; };
  // A column of a matrix whose rows are cut into very many flat parts.
  TensorLayout flat{{TensorLayout::kFlat}, 0};
  flat.flat_total = 16ull << 26;
  for_each_shard(Shape{16, 1ull << 26}, Mesh::parse("a=1073741824"), flat, Box{{0, 0}, {16, 1}}, count);
  EXPECT_EQ(visits, 16);
  visits = 0;
  for_each_shard(Shape{1ull << 40}, Mesh::parse("a=65536,b=16384"), {{0, 0}, 0, {4, 0}}, Box{{5}, {2}},
                 count);
  EXPECT_EQ(visits, 1);
}

TEST(Shard, ManyRunsCostOnePass) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  const TensorLayout layout{{0, 0}, 0, {kMostFactor, kMostFactor}};
  const Shard shard = local_shard(Shape{1ull << 30}, mesh, layout, Dims{1, 1});
  EXPECT_EQ(shard.box.elements(), 1ull << 28);
  EXPECT_EQ(shard.blocks.size(), kMostFactor);
}

}  // namespace
}  // namespace slabload
