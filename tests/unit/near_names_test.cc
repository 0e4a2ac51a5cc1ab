// What a mistyped name may have meant.
#include "cli/near_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slabload {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Textbook distances.
TEST(NearNames, EditDistance) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 9), 3u);
  EXPECT_EQ(edit_distance("saturday", "sunday", 9), 3u);
  EXPECT_EQ(edit_distance("flaw", "lawn", 9), 2u);
  EXPECT_EQ(edit_distance("", "abc", 9), 3u);
  EXPECT_EQ(edit_distance("same", "same", 0), 0u);
  // No more is counted than asked for.
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3u);
  EXPECT_EQ(edit_distance("a", "bcdefgh", 3), 4u);
}

TEST(NearNames, NearestFirst) {
  const std::vector<std::string> names = {"model.norm.weight", "model.layers.0.q_proj.weight",
                                          "model.layers.0.k_proj.weight", "model.layers.1.q_proj.weight",
                                          "lm_head.weight"};
  EXPECT_THAT(nearest_names("model.layers.0.q_proj.wieght", names, 2),
              ElementsAre("model.layers.0.q_proj.weight", "model.layers.0.k_proj.weight"));
  EXPECT_THAT(nearest_names("lm_haed.weight", names, 3), ElementsAre("lm_head.weight"));
  // A part of a name, a glob, nothing like any.
  EXPECT_THAT(nearest_names("q_proj", names, 3),
              ElementsAre("model.layers.0.q_proj.weight", "model.layers.1.q_proj.weight"));
  EXPECT_THAT(nearest_names("*norm*", names, 3), ElementsAre("model.norm.weight"));
  EXPECT_THAT(nearest_names("nobody", names, 3), IsEmpty());
  EXPECT_THAT(nearest_names("", names, 3), IsEmpty());
}

}  // namespace
}  // namespace slabload
