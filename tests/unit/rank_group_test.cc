// Groups of ranks as numbers against lists of ranks.
#include "layout/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace slabload {
namespace {

using ::testing::ElementsAre;

TEST(RankGroup, EqualsTheListOfRanks) {
  std::mt19937_64 random(31);
  for (int i = 0; i < 500; ++i) {
    std::vector<MeshAxis> axes(1 + random() % 4);
    for (std::size_t a = 0; a < axes.size(); ++a)
      axes[a] = {std::string(1, static_cast<char>('a' + a)), 1 + random() % 4};
    const Mesh mesh(axes);
    const auto mask = static_cast<std::uint32_t>(random() % 16);
    const std::uint64_t rank = random() % mesh.ranks();
    const Dims own = mesh.coordinate(rank);
    std::vector<int> expected;
    for (std::uint64_t other = 0; other < mesh.ranks(); ++other) {
      const Dims at = mesh.coordinate(other);
      bool same = true;
      for (std::size_t a = 0; a < axes.size(); ++a) same = same && (((mask >> a) & 1) || at[a] == own[a]);
      if (same) expected.push_back(static_cast<int>(other));
    }
    const RankGroup group = RankGroup::along(mesh, mask, rank);
    ASSERT_EQ(group.ranks(), expected) << mesh.text() << " mask " << mask << " rank " << rank;
    ASSERT_EQ(group.size(), expected.size());
    for (std::uint64_t other = 0; other < mesh.ranks() + 3; ++other) {
      auto at = std::find(expected.begin(), expected.end(), static_cast<int>(other));
      auto found = group.find(other);
      ASSERT_EQ(found.has_value(), at != expected.end()) << other;
      if (found) {
        ASSERT_EQ(*found, static_cast<std::uint64_t>(at - expected.begin()));
      }
    }
    ASSERT_TRUE(group == RankGroup::along(mesh, mask, static_cast<std::uint64_t>(expected.back())));
  }
}

TEST(RankGroup, NeighbouringAxesAreOne) {
  const Mesh mesh = Mesh::parse("a=2,b=3,c=4");
  EXPECT_EQ(RankGroup::along(mesh, 0b111, 17), RankGroup::all(24));
  EXPECT_EQ(RankGroup::along(mesh, 0b110, 17).axes.size(), 1u);
  EXPECT_EQ(RankGroup::along(mesh, 0b101, 17).axes.size(), 2u);
  EXPECT_THAT(RankGroup::along(mesh, 0, 17).ranks(), ElementsAre(17));
}

}  // namespace
}  // namespace slabload
