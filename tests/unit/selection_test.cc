// --select and --exclude.
#include "index/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/table.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorIndex sample() {
  TensorIndex index = parse_table("z.w\tf32\t1\na.w\tf32\t1\na.b\tf32\t1\nm.w\tf32\t1\n", "ckpt");
  index.tensors[3].aliases = {"tied.w"};
  index.skipped = {{"notes", "a string"}};
  return index;
}

std::vector<std::string> names(const Selection& selection) {
  std::vector<std::string> out;
  for (const TensorMeta& t : select_tensors(sample(), selection).tensors) out.push_back(t.name);
  return out;
}

TEST(Selection, KeepsOrder) {
  EXPECT_THAT(names({}), ElementsAre("z.w", "a.w", "a.b", "m.w"));
  EXPECT_THAT(names({{"*.w"}, {}}), ElementsAre("z.w", "a.w", "m.w"));
  EXPECT_THAT(names({{"a.*", "z.w"}, {}}), ElementsAre("z.w", "a.w", "a.b"));
  EXPECT_THAT(names({{}, {"a.*"}}), ElementsAre("z.w", "m.w"));
  EXPECT_THAT(names({{"a.*"}, {"*.b"}}), ElementsAre("a.w"));
}

TEST(Selection, LooksAtAliases) {
  EXPECT_THAT(names({{"tied.*"}, {}}), ElementsAre("m.w"));
  EXPECT_THAT(names({{}, {"tied.*"}}), ElementsAre("z.w", "a.w", "a.b"));
}

TEST(Selection, ExcludingNothingIsNoError) {
  EXPECT_THAT(names({{}, {"nosuch*"}}), ElementsAre("z.w", "a.w", "a.b", "m.w"));
}

TEST(Selection, RefusesAGlobWithoutMatch) {
  Error error = thrown_error([] { names({{"a.w", "b.*"}, {}}); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("ckpt"), HasSubstr("'b.*'")));
}

TEST(Selection, SaysWhyAnObjectIsNoTensor) {
  Error error = thrown_error([] { names({{"a.w", "notes"}, {}}); });
  EXPECT_EQ(error.status(), Status::file);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("notes"), HasSubstr("a string")));
}

TEST(Selection, RefusesAnEmptyOutcome) {
  EXPECT_EQ(thrown_error([] { names({{}, {"*"}}); }).status(), Status::usage);
  EXPECT_EQ(thrown_error([] { select_tensors(TensorIndex{}, {}); }).status(), Status::file);
}

TEST(Selection, RefusesToLeaveAnObjectOutInSilence) {
  Error error = thrown_error([] { refuse_skipped(sample(), {}); });
  EXPECT_EQ(error.status(), Status::file);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("ckpt"), HasSubstr("'notes'"), HasSubstr("a string")));
  EXPECT_EQ(thrown_error([] { refuse_skipped(sample(), {{"n*"}, {}}); }).status(), Status::file);
  refuse_skipped(sample(), {{}, {"not*"}});
  refuse_skipped(sample(), {{"a.*"}, {}});
}

}  // namespace
}  // namespace slabload
