// Renames and aliases: what a rules file makes of a checkpoint's names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/glob.h"
#include "index/selection.h"
#include "layout/layout.h"
#include "layout/name_rules.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Views = std::vector<std::string_view>;

std::optional<Views> captures(std::string_view pattern, std::string_view name) {
  return NamePattern::parse(pattern).value().match(name);
}

TEST(NamePattern, CapturesItsWildcards) {
  EXPECT_EQ(captures("model.*", "model.layers.0.w"), (Views{"layers.0.w"}));
  EXPECT_EQ(captures("*.layers.*.w[13].*", "m.layers.7.w3.weight"), (Views{"m", "7", "3", "weight"}));
  EXPECT_EQ(captures("h.?.w", "h.5.w"), (Views{"5"}));
  EXPECT_EQ(captures("plain", "plain"), (Views{}));
  EXPECT_EQ(captures("a*", "a"), (Views{""}));
  EXPECT_EQ(captures("*", ""), (Views{""}));
  EXPECT_EQ(captures("a\\*b", "a*b"), (Views{}));
  // The leftmost star takes as little as it can.
  EXPECT_EQ(captures("*.*", "a.b.c"), (Views{"a", "b.c"}));
  EXPECT_EQ(captures("**.c", "a.b.c"), (Views{"", "a.b"}));
  EXPECT_EQ(captures("*a*a", "aaa"), (Views{"", "a"}));
  EXPECT_FALSE(captures("model.*", "xmodel.w"));
  EXPECT_FALSE(captures("h.?.w", "h.15.w"));
  EXPECT_FALSE(captures("a", ""));
  for (const char* text : {"a[", "[", "[]", "[!]", "a[b\\]", "end\\", "[[:alpha:]"})
    EXPECT_FALSE(NamePattern::parse(text)) << text;
}

TEST(NamePattern, MatchesWhatGlobsMatch) {
  std::mt19937_64 random(41);
  constexpr std::string_view kPieces[] = {"a",     "b",   ".",   "*",           "?", "[ab]", "[!a]", "[^a.]",
                                          "[a-c]", "\\*", "[]]", "[[:digit:]]", "1", "]",    "-",    "[?*]"};
  constexpr std::string_view kBytes = "ab.1]*-?\xc3";
  int matched = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string pattern, name;
    for (std::uint64_t n = random() % 7; n > 0; --n) pattern += kPieces[random() % std::size(kPieces)];
    for (std::uint64_t n = random() % 7; n > 0; --n) name += kBytes[random() % kBytes.size()];
    auto found = captures(pattern, name);
    ASSERT_EQ(found.has_value(), glob_match(pattern, name)) << pattern << " on " << name;
    if (!found) continue;
    ++matched;
    ASSERT_EQ(found->size(), NamePattern::parse(pattern)->captures());
  }
  EXPECT_GT(matched, 1000);
}

TEST(NamePattern, TakesNoTimeOnNastyNames) {
  std::string pattern, name(100000, 'a');
  for (int i = 0; i < 30; ++i) pattern += "*a";
  EXPECT_FALSE(captures(pattern + "b", name));
  EXPECT_TRUE(captures(pattern + "*", name));
}

TEST(NamePattern, FillsInCaptures) {
  EXPECT_EQ(fill_captures("x.$1.$2.$1", {"a", "b"}), "x.a.b.a");
  EXPECT_EQ(fill_captures("$1$$$10", {"a"}), "a$a0");
  EXPECT_EQ(fill_captures("", {}), "");
  for (const char* text : {"$2", "$0", "$", "a$", "$x", "${1}"})
    EXPECT_FALSE(fill_captures(text, {"a"})) << text;
}

TensorMeta named(const std::string& name, std::vector<std::string> aliases = {}) {
  TensorMeta t;
  t.name = name;
  t.path = "/" + name;
  t.aliases = std::move(aliases);
  t.shape = Shape{4};
  return t;
}

TensorIndex index_with(std::vector<TensorMeta> tensors) {
  TensorIndex index;
  index.tensors = std::move(tensors);
  return index;
}

std::vector<std::string> names_in(const TensorIndex& index) {
  std::vector<std::string> out;
  for (const TensorMeta& t : index.tensors) {
    out.push_back(t.name);
    for (const std::string& alias : t.aliases) out.back() += "=" + alias;
  }
  return out;
}

TensorIndex apply(const char* rules, std::vector<TensorMeta> tensors) {
  return rename_tensors(index_with(std::move(tensors)), NameRules::from_json(rules, "r.json"));
}

TEST(NameRules, TheFirstRenameThatMatchesWins) {
  TensorIndex index =
      apply(R"json({"rename": [
      {"match": "model.norm.*", "replace": "final.$1"},
      {"match": "model.*", "replace": "model.language_model.$1"}], "default": {}})json",
            {named("model.norm.weight"), named("model.layers.0.w"), named("lm_head.weight")});
  EXPECT_THAT(names_in(index), ElementsAre("final.weight", "model.language_model.layers.0.w", "lm_head.weight"));
  EXPECT_EQ(index.tensors[0].path, "/model.norm.weight");
  EXPECT_EQ(shown_name(index.tensors[0]), "final.weight (/model.norm.weight in the file)");
  EXPECT_EQ(shown_name(index.tensors[2]), "lm_head.weight");
}

TEST(NameRules, NamesMayBeSwapped) {
  EXPECT_THAT(
      names_in(apply(R"json({"rename": [{"match": "a", "replace": "b"}, {"match": "b", "replace": "a"}]})json",
                  {named("a"), named("b")})),
      ElementsAre("b", "a"));
}

TEST(NameRules, FurtherNamesAreRenamedToo) {
  EXPECT_THAT(names_in(apply(R"json({"rename": [{"match": "m.*", "replace": "$1"}]})json",
                          {named("m.x", {"m.z", "m.y", "x"}), named("w")})),
              ElementsAre("x=y=z", "w"));
}

TEST(NameRules, AliasesAreFurtherNames) {
  const TensorIndex index = apply(R"json({
      "rename": [{"match": "model.*", "replace": "m.$1"}],
      "alias": [{"name": "lm_head.weight", "of": "m.embed"}, {"name": "again", "of": "lm_head.weight"}]})json",
                                  {named("model.embed"), named("w")});
  EXPECT_THAT(names_in(index), ElementsAre("m.embed=again=lm_head.weight", "w"));
  EXPECT_EQ(index.find("again"), &index.tensors[0]);
  EXPECT_EQ(select_tensors(index, {{"lm_head*"}, {}}).tensors.size(), 1u);
}

TEST(NameRules, AFileWithoutThemChangesNothing) {
  const NameRules rules = NameRules::from_json(R"json({"default": {}})json", "r.json");
  EXPECT_TRUE(rules.empty());
  EXPECT_THAT(names_in(rename_tensors(index_with({named("a")}), rules)), ElementsAre("a"));
}

TEST(NameRules, RefuseWhatDoesNotFitTheCheckpoint) {
  const struct {
    const char* rules;
    std::vector<const char*> says;
  } cases[] = {
      {R"json({"rename": [{"match": "*.x", "replace": "x"}]})json", {"a.x", "b.x", "named x"}},
      {R"json({"rename": [{"match": "a.x", "replace": "w"}]})json", {"a.x", "the tensors", "named w"}},
      {R"json({"rename": [{"match": "a.x", "replace": "other"}]})json", {"a.x", "b.x", "named other"}},
      {R"json({"rename": [{"match": "nosuch*", "replace": "w"}]})json",
       {"rename 1", "'nosuch*'", "matches no tensor"}},
      {R"json({"rename": [{"match": "?.x", "replace": "$1"}, {"match": "a.*", "replace": "q"}]})json",
       {"rename 2", "'a.*'", "earlier", "a.x"}},
      {R"json({"rename": [{"match": "*w", "replace": "$1"}]})json", {"rename 1", "no name", "tensor w"}},
      {R"json({"alias": [{"name": "n", "of": "nosuch"}]})json",
       {"alias 1", "n of nosuch", "no tensor nosuch"}},
      {R"json({"rename": [{"match": "w", "replace": "v"}], "alias": [{"name": "n", "of": "w"}]})json",
       {"no tensor w"}},
      {R"json({"alias": [{"name": "a.x", "of": "w"}]})json", {"alias 1", "a.x", "already"}},
      {R"json({"alias": [{"name": "n", "of": "w"}, {"name": "n", "of": "a.x"}]})json",
       {"alias 2", "tensor w", "already"}},
      {R"json({"rename": [{"match": "w", "replace": "v"}], "alias": [{"name": "v", "of": "a.x"}]})json",
       {"v (/w in the file)", "already"}},
  };
  for (const auto& c : cases) {
    Error error = thrown_error([&] {
      apply(c.rules, {named("a.x"), named("b.x", {"other"}), named("w")});
    });
    EXPECT_EQ(error.status(), Status::usage) << c.rules;
    EXPECT_THAT(error.message(), HasSubstr("r.json")) << c.rules;
    for (const char* part : c.says) EXPECT_THAT(error.message(), HasSubstr(part)) << c.rules;
  }
}

TEST(NameRules, RefuseWhatIsNoRule) {
  const std::string wide(5000, 'a');
  const std::string too_wide =
      R"json({"rename": [{"match": ")json" + wide + R"json(", "replace": "x"}]})json";
  const struct {
    std::string text;
    const char* reason;
  } cases[] = {
      {"{", "not JSON"},
      {"[]", "JSON object"},
      {R"json({"rename": {}})json", "\"rename\" is not a list"},
      {R"json({"alias": 1})json", "\"alias\" is not a list"},
      {R"json({"rename": [1]})json", "rename 1: expected"},
      {R"json({"rename": [{"match": "a", "replace": "b"}, {"match": "a"}]})json", "rename 2: expected"},
      {R"json({"rename": [{"match": "a", "replace": 1}]})json", "rename 1: expected"},
      {R"json({"rename": [{"match": "a", "replace": "b", "more": 1}]})json", "rename 1: expected"},
      {R"json({"rename": [{"match": "", "replace": "b"}]})json", "\"match\" is empty"},
      {R"json({"rename": [{"match": "a", "replace": ""}]})json", "\"replace\" is empty"},
      {R"json({"rename": [{"match": "a\u0000", "replace": "b"}]})json", "zero byte"},
      {R"json({"rename": [{"match": "a[", "replace": "b"}]})json", "'a[' is not a glob"},
      {R"json({"rename": [{"match": "a*", "replace": "$2"}]})json", "the 1 wildcards of 'a*'"},
      {R"json({"rename": [{"match": "a*", "replace": "b$"}]})json", "$$"},
      {too_wide, "4096 bytes"},
      {R"json({"alias": [{"name": "a"}]})json", "alias 1: expected"},
      {R"json({"alias": [{"name": "", "of": "b"}]})json", "\"name\" is empty"},
  };
  for (const auto& c : cases) {
    Error error = thrown_error([&] { NameRules::from_json(c.text, "r.json"); });
    EXPECT_EQ(error.status(), Status::usage) << c.text;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("r.json"), HasSubstr(c.reason))) << c.text;
    // Layouts are read from the same text.
    if (c.text.starts_with("{\"")) {
      std::string both = c.text;
      both.insert(both.size() - 1, ", \"default\": {}");
      EXPECT_EQ(thrown_error([&] { Layout::from_json(both, "r.json", std::nullopt, 2); }).message(),
                error.message());
    }
  }
}

TEST(NameRules, LayoutsSpeakOfBothNames) {
  constexpr const char* kRules = R"json({"mesh": "a=2", "rename": [{"match": "old", "replace": "new"}],
      "rules": [{"match": "new", "placements": {"a": "S(1)"}}]})json";
  const TensorIndex index = apply(kRules, {named("old"), named("w")});
  const Layout layout = Layout::from_json(kRules, "r.json", std::nullopt, 2);
  EXPECT_THAT(thrown_error([&] { layout.resolve(index.tensors[0]); }).message(),
              AllOf(HasSubstr("rule 1 'new'"), HasSubstr("new (/old in the file)")));
  EXPECT_THAT(layout.unused_rules(index), IsEmpty());
}

}  // namespace
}  // namespace slabload
