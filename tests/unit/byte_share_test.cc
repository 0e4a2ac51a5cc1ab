// The even split of a checkpoint over ranks.
#include "plan/byte_share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace slabload {
namespace {

TensorIndex index_of(const std::vector<std::pair<DType, Shape>>& tensors) {
  TensorIndex index;
  for (const auto& [dtype, shape] : tensors) {
    TensorMeta t;
    t.name = "t" + std::to_string(index.tensors.size());
    t.dtype = dtype;
    t.shape = shape;
    index.tensors.push_back(t);
  }
  return index;
}

TEST(ByteShare, CutsTheRowOfTensorsEvenly) {
  // 12 + 8 bytes over 2 ranks: the cut at byte 10 lies in element 2 of the first tensor and goes to its
  // front.
  TensorIndex index = index_of({{DType::f32, Shape{3}}, {DType::u8, Shape{2, 4}}});
  auto first = byte_share(index, 0, 2);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].tensor, 0u);
  EXPECT_EQ(first[0].range.begin, 0u);
  EXPECT_EQ(first[0].range.end, 2u);
  auto second = byte_share(index, 1, 2);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].range.begin, 2u);
  EXPECT_EQ(second[0].range.end, 3u);
  EXPECT_EQ(second[1].tensor, 1u);
  EXPECT_EQ(second[1].range.end, 8u);
  EXPECT_EQ(share_bytes(index, first), 8u);
  EXPECT_EQ(share_bytes(index, second), 12u);
}

TEST(ByteShare, TakesEveryElementOnceAtAnyNumberOfRanks) {
  TensorIndex index = index_of({{DType::u8, Shape{}},
                                {DType::f64, Shape{5, 3}},
                                {DType::bf16, Shape{0, 7}},
                                {DType::boolean, Shape{13}},
                                {DType::f32, Shape{}},
                                {DType::f16, Shape{1, 1, 31}}});
  for (int ranks : {1, 2, 3, 4, 7, 64, 500}) {
    std::map<std::pair<std::size_t, std::uint64_t>, int> taken;
    for (int rank = 0; rank < ranks; ++rank) {
      auto share = byte_share(index, rank, ranks);
      for (const SharePart& part : share) {
        EXPECT_FALSE(part.range.empty());
        for (std::uint64_t i = part.range.begin; i < part.range.end; ++i) ++taken[{part.tensor, i}];
      }
      // Even to an element of 8 bytes on either side.
      double even = static_cast<double>(index.total_bytes()) / ranks;
      EXPECT_LT(std::abs(static_cast<double>(share_bytes(index, share)) - even), 16.0);
    }
    EXPECT_EQ(taken.size(), 1u + 15 + 13 + 1 + 31) << ranks;
    for (const auto& [element, times] : taken) EXPECT_EQ(times, 1);
  }
}

TEST(ByteShare, GivesNothingOfNothing) {
  EXPECT_TRUE(byte_share(TensorIndex{}, 0, 3).empty());
  EXPECT_TRUE(byte_share(index_of({{DType::f32, Shape{0}}}), 2, 3).empty());
}

TEST(ByteShare, HoldsBeyond32BitsAndAtTheLastRank) {
  TensorIndex index = index_of({{DType::f32, Shape{std::uint64_t{1} << 40}}, {DType::f32, Shape{7}}});
  auto last = byte_share(index, 16383, 16384);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].range.end, std::uint64_t{1} << 40);
  EXPECT_EQ(last[1].range.end, 7u);
  EXPECT_NEAR(static_cast<double>(last[0].range.size()), std::pow(2, 26), 8);
}

TEST(ByteShare, CutsARangeIntoPieces) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  for_each_piece({3, 10}, 3, [&](FlatRange piece) { pieces.emplace_back(piece.begin, piece.end); });
  EXPECT_EQ(pieces, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{3, 6}, {6, 9}, {9, 10}}));
  for_each_piece({5, 5}, 3, [&](FlatRange) { ADD_FAILURE() << "an empty range has no piece"; });
}

}  // namespace
}  // namespace slabload
