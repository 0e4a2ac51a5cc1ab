// The device mesh.
#include "layout/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using ::testing::HasSubstr;

TEST(Mesh, ParsesAxesOutermostFirst) {
  Mesh mesh = Mesh::parse("dp_replicate=2,dp_shard=4,tp=3");
  ASSERT_EQ(mesh.ndim(), 3u);
  EXPECT_EQ(mesh.axis(0).name, "dp_replicate");
  EXPECT_EQ(mesh.axis(1).size, 4u);
  EXPECT_EQ(mesh.ranks(), 24u);
  EXPECT_EQ(mesh.text(), "dp_replicate=2,dp_shard=4,tp=3");
  EXPECT_EQ(mesh.find("tp"), 2u);
  EXPECT_FALSE(mesh.find("pp").has_value());
}

TEST(Mesh, NumbersRanksRowMajor) {
  Mesh mesh = Mesh::parse("a=2,b=3,c=4");
  std::uint64_t rank = 0;
  for (std::uint64_t a = 0; a < 2; ++a) {
    for (std::uint64_t b = 0; b < 3; ++b) {
      for (std::uint64_t c = 0; c < 4; ++c, ++rank) {
        EXPECT_EQ(mesh.coordinate(rank), (Dims{a, b, c}));
        EXPECT_EQ(mesh.rank_of(Dims{a, b, c}), rank);
      }
    }
  }
  EXPECT_EQ(mesh.stride(0), 12u);
  EXPECT_EQ(mesh.stride(1), 4u);
  EXPECT_EQ(mesh.stride(2), 1u);
}

TEST(Mesh, RefusesBadText) {
  for (const char* text :
       {"", "a", "a=", "=2", "a=x", "a=-1", "a=0", "a=2,", ",a=2", "a=2,a=3", "a=2 ,b=3", "a=1.5",
        "a=65536,b=65536", "a=18446744073709551615,b=2", "a=99999999999999999999"}) {
    Error error = thrown_error([&] { Mesh::parse(text); });
    EXPECT_EQ(error.status(), Status::usage) << text;
    EXPECT_THAT(error.message(), HasSubstr("--mesh"));
  }
  EXPECT_EQ(thrown_error([] { Mesh({}); }).status(), Status::usage);
}

TEST(Mesh, TakesManyRanks) {
  Mesh mesh = Mesh::parse("a=16384,b=8");
  EXPECT_EQ(mesh.ranks(), 131072u);
  EXPECT_EQ(mesh.coordinate(131071), (Dims{16383, 7}));
}

}  // namespace
}  // namespace slabload
