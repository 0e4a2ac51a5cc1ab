// Shell patterns on tensor names.
#include "base/glob.h"

#include <gtest/gtest.h>

namespace slabload {
namespace {

TEST(Glob, MatchesNames) {
  EXPECT_TRUE(glob_match("model.embed", "model.embed"));
  EXPECT_FALSE(glob_match("model.embed", "model.embed.weight"));
  EXPECT_TRUE(glob_match("*", "anything at/all."));
  EXPECT_TRUE(glob_match("*.weight", "model.layers.0.mlp.weight"));
  EXPECT_TRUE(glob_match("*", ".hidden"));
  EXPECT_TRUE(glob_match("a*z", "a/b/z"));
  EXPECT_FALSE(glob_match("*.weight", "model.bias"));
  EXPECT_TRUE(glob_match("layers.?.w", "layers.7.w"));
  EXPECT_FALSE(glob_match("layers.?.w", "layers.17.w"));
  EXPECT_TRUE(glob_match("layers.[0-3].w", "layers.2.w"));
  EXPECT_FALSE(glob_match("layers.[!0-3].w", "layers.2.w"));
  EXPECT_TRUE(glob_match("a\\*", "a*"));
  EXPECT_FALSE(glob_match("a\\*", "ab"));
  EXPECT_FALSE(glob_match("Model*", "model.x"));
}

TEST(Glob, MatchesAnyOfAList) {
  EXPECT_FALSE(glob_match_any({}, "a"));
  EXPECT_TRUE(glob_match_any({"b", "a*"}, "abc"));
  EXPECT_FALSE(glob_match_any({"b", "c*"}, "abc"));
}

}  // namespace
}  // namespace slabload
