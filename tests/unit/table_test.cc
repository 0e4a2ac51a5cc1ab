// Tensor tables.
#include "index/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Table, ParsesLines) {
  TensorIndex index = parse_table(
      "# name\tdtype\tshape\n"
      "model.embed\tbf16\t151936,896\r\n"
      "\n"
      "step\tI64\t\n"
      "norm weight\tfp32\t896\n"
      "empty\tu8\t0,7",
      "t.tsv");
  EXPECT_EQ(index.format, "table");
  EXPECT_EQ(index.path, "t.tsv");
  ASSERT_EQ(index.tensors.size(), 4u);
  EXPECT_EQ(index.tensors[0].name, "model.embed");
  EXPECT_EQ(index.tensors[0].dtype, DType::bf16);
  EXPECT_EQ(index.tensors[0].shape, (Shape{151936, 896}));
  EXPECT_EQ(index.tensors[0].offset, 0u);
  EXPECT_EQ(index.tensors[1].shape, Shape{});
  EXPECT_EQ(index.tensors[1].dtype, DType::i64);
  EXPECT_EQ(index.tensors[1].offset, 272269312u);  // 151936 * 896 * 2
  EXPECT_EQ(index.tensors[2].name, "norm weight");
  EXPECT_EQ(index.tensors[2].offset, 272269320u);
  EXPECT_EQ(index.tensors[3].bytes(), 0u);
  EXPECT_EQ(index.tensors[3].offset, 272272904u);
  EXPECT_EQ(index.total_bytes(), 272272904u);
}

TEST(Table, NamesLineAndReason) {
  struct {
    const char* text;
    const char* line;
    const char* reason;
  } cases[] = {
      {"a\tbf16\t1\nb\tbf16\n", "line 2", "2 columns"},
      {"a\tbf16\t1\textra\n", "line 1", "4 columns"},
      {"a bf16 1\n", "line 1", "1 columns"},
      {"\tbf16\t1\n", "line 1", "without a name"},
      {"# c\n\na\tfloat\t1\n", "line 3, tensor a", "unknown dtype 'float'"},
      {"a\tbf16\t1,x\n", "tensor a", "'x'"},
      {"a\tbf16\t1,,2\n", "tensor a", "''"},
      {"a\tbf16\t-1\n", "tensor a", "'-1'"},
      {"a\tbf16\t1 ,2\n", "tensor a", "'1 '"},
      {"a\tbf16\t99999999999999999999\n", "tensor a", "not a length"},
      {"a\tbf16\t4294967296,4294967296\n", "tensor a", "more elements"},
      {"a\tbf16\t0,4294967296,4294967296\n", "tensor a", "more elements"},
      {"a\tbf16\t1\na\tf32\t2\n", "line 2, tensor a", "twice"},
      {"a\tbf16\t1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n", "tensor a",
       "33 dimensions"},
      {"", "", "no tensor"},
      {"# only a comment\n", "", "no tensor"},
      // Two tensors that fit, but not together.
      {"a\tu8\t1152921504606846976\nb\tf64\t1152921504606846976\nc\tf64\t1152921504606846976\n", "", "2^64"},
  };
  for (const auto& c : cases) {
    Error error = thrown_error([&] { parse_table(c.text, "t.tsv"); });
    EXPECT_EQ(error.status(), Status::file) << c.text;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("t.tsv"), HasSubstr(c.line), HasSubstr(c.reason)));
  }
}

TEST(Table, EscapesNamesInMessages) {
  Error error = thrown_error([] { parse_table("a\x1b[2J\tnone\t1\n", "t.tsv"); });
  EXPECT_THAT(error.message(), HasSubstr("a\\x1b[2J"));
}

TEST(Table, ScalesDown) {
  TensorIndex index = parse_table("a\tbf16\t100,7,8\nb\tf32\t\nc\tf32\t17\nd\tu8\t0,8\n", "t");
  scale_down(index, 8);
  EXPECT_EQ(index.tensors[0].shape, (Shape{13, 7, 8}));  // ceil(100/8); 7 and 8 are not above 8
  EXPECT_EQ(index.tensors[1].shape, Shape{});
  EXPECT_EQ(index.tensors[2].shape, (Shape{3}));
  EXPECT_EQ(index.tensors[3].shape, (Shape{0, 8}));
  EXPECT_EQ(index.tensors[1].offset, 13u * 7 * 8 * 2);
  EXPECT_EQ(index.tensors[2].offset, 13u * 7 * 8 * 2 + 4);
  EXPECT_EQ(index.tensors[2].stored_bytes, 12u);
}

TEST(Table, ScaleOneChangesNothing) {
  TensorIndex index = parse_table("a\tbf16\t100,1\n", "t");
  scale_down(index, 1);
  EXPECT_EQ(index.tensors[0].shape, (Shape{100, 1}));
}

TEST(Differences, ListsAll) {
  TensorIndex wanted = parse_table(
      "same\tbf16\t2,3\nother_dtype\tbf16\t4\nother_shape\tf32\t2,3\ngone\tu8\t5\ntied\tf32\t9\n", "w");
  TensorIndex there = parse_table(
      "same\tbf16\t2,3\nother_dtype\tf16\t4\nother_shape\tf32\t3,2\nmore\ti64\t\nhead\tf32\t9\n", "t");
  there.tensors[4].aliases = {"tied"};
  EXPECT_THAT(
      differences(wanted, there),
      ElementsAre(
          AllOf(HasSubstr("different"), HasSubstr("other_dtype"), HasSubstr("f16"), HasSubstr("bf16")),
          AllOf(HasSubstr("different"), HasSubstr("other_shape"), HasSubstr("(3, 2)"), HasSubstr("(2, 3)")),
          AllOf(HasSubstr("missing"), HasSubstr("gone"), HasSubstr("u8"), HasSubstr("(5)")),
          AllOf(HasSubstr("extra"), HasSubstr("more"), HasSubstr("i64"))));
  EXPECT_THAT(differences(wanted, wanted), IsEmpty());
}

}  // namespace
}  // namespace slabload
