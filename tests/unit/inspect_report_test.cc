// What inspect prints.
#include "report/inspect_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slabload {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TensorIndex example_index() {
  TensorIndex index;
  index.path = "model.h5";
  index.format = "hdf5";
  index.files = {{"model.h5", 5000, 1, 2}};
  TensorMeta a;
  a.name = "embed";
  a.aliases = {"head", "tied"};
  a.path = "/embed";
  a.dtype = DType::bf16;
  a.shape = {10, 20};
  a.offset = 2048;
  a.stored_bytes = 400;
  a.crc64 = 0xabc;
  TensorMeta b;
  b.name = "packed\x1b\xff";
  b.path = "/packed";
  b.dtype = DType::f32;
  b.shape = {8, 8};
  b.storage = StorageKind::chunked;
  b.chunk = {4, 8};
  b.filters = {"shuffle", "deflate(6)"};
  b.stored_bytes = 77;
  b.big_endian = true;
  TensorMeta c;
  c.name = "step";
  c.dtype = DType::i64;
  c.storage = StorageKind::fill;
  index.tensors = {a, b, c};
  index.skipped = {{"notes", "a string"}};
  index.metadata = {{"format", "pt\nx"}};
  index.metadata_bytes = 4523;
  return index;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

TEST(InspectReport, TextHasTotalsAndSkippedObjects) {
  std::string text = inspect_text(example_index(), false);
  for (const char* part :
       {"model.h5", "hdf5", "3, 664 B (664 B)", "477 B of tensors, 4523 B of everything else",
        "1 of 3 tensors", "1 tensors, converted when loaded", "notes: a string", "format = pt\\x0ax",
        "never written", "bf16"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  for (const std::string& line : lines_of(text)) EXPECT_EQ(line[0], '#') << line;
}

TEST(InspectReport, SaysWhetherTheIndexIsProved) {
  TensorIndex index = example_index();
  EXPECT_THAT(inspect_text(index, false), Not(HasSubstr("# index ")));
  EXPECT_TRUE(nlohmann::json::parse(inspect_json(index, false))["index_verified"].is_null());
  index.proof = IndexProof::right;
  EXPECT_THAT(inspect_text(index, false), HasSubstr("# index        proved by its checksum"));
  EXPECT_EQ(nlohmann::json::parse(inspect_json(index, false))["index_verified"], true);
  index.proof = IndexProof::wrong;
  EXPECT_THAT(inspect_text(index, false), HasSubstr("# index        NOT what its checksum says"));
  EXPECT_EQ(nlohmann::json::parse(inspect_json(index, false))["index_verified"], false);
}

TEST(InspectReport, TextHasALinePerTensor) {
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(inspect_text(example_index(), true))) {
    if (line[0] != '#') rows.push_back(line);
  }
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0],
            "embed (= head, tied)  bf16  (10, 20)  400 B  contiguous  at 2048  crc64 0000000000000abc");
  EXPECT_THAT(rows[1], AllOf(HasSubstr("packed\\x1b\\xff"), HasSubstr("chunked (4, 8) shuffle deflate(6)"),
                             HasSubstr("big-endian"), HasSubstr("no checksum"), Not(HasSubstr(" at "))));
  EXPECT_THAT(rows[2], AllOf(HasSubstr("step"), HasSubstr("()"), HasSubstr("never written")));
}

TEST(InspectReport, NamesTheFileOfEachTensorWhereThereAreSeveral) {
  TensorIndex index = example_index();
  index.files.push_back({"second.h5", 6000, 1, 2});
  index.tensors[0].file = 1;
  EXPECT_THAT(inspect_text(index, true), HasSubstr("at 2048 of second.h5"));
  nlohmann::json json = nlohmann::json::parse(inspect_json(index, true));
  EXPECT_EQ(json["files"][1]["path"], "second.h5");
  EXPECT_EQ(json["tensors"][0]["file"], 1);
}

TEST(InspectReport, JsonHoldsTheSame) {
  nlohmann::json json = nlohmann::json::parse(inspect_json(example_index(), true));
  EXPECT_EQ(json["checkpoint"], "model.h5");
  EXPECT_EQ(json["format"], "hdf5");
  EXPECT_EQ(json["tensor_count"], 3);
  EXPECT_EQ(json["total_bytes"], 664);
  EXPECT_EQ(json["stored_bytes"], 477);
  EXPECT_EQ(json["metadata_bytes"], 4523);
  EXPECT_EQ(json["tensors_with_checksum"], 1);
  EXPECT_EQ(json["dtypes"]["bf16"]["bytes"], 400);
  EXPECT_EQ(json["storage"]["contiguous"]["tensors"], 1);
  EXPECT_EQ(json["metadata"]["format"], "pt\nx");
  EXPECT_EQ(json["skipped"][0]["reason"], "a string");
  ASSERT_EQ(json["tensors"].size(), 3u);
  nlohmann::json a = json["tensors"][0];
  EXPECT_EQ(a["name"], "embed");
  EXPECT_EQ(a["aliases"], (nlohmann::json{"head", "tied"}));
  EXPECT_EQ(a["dtype"], "bf16");
  EXPECT_EQ(a["shape"], (nlohmann::json{10, 20}));
  EXPECT_EQ(a["bytes"], 400);
  EXPECT_EQ(a["offset"], 2048);
  EXPECT_EQ(a["byte_order"], "little");
  EXPECT_EQ(a["crc64"], "0000000000000abc");
  EXPECT_TRUE(a["chunk"].is_null());
  nlohmann::json b = json["tensors"][1];
  EXPECT_THAT(b["name"].get<std::string>(), HasSubstr("\\xff"));
  EXPECT_EQ(b["byte_order"], "big");
  EXPECT_EQ(b["chunk"], (nlohmann::json{4, 8}));
  EXPECT_EQ(b["filters"], (nlohmann::json{"shuffle", "deflate(6)"}));
  EXPECT_TRUE(b["offset"].is_null());
  EXPECT_TRUE(b["crc64"].is_null());
  EXPECT_EQ(json["tensors"][2]["shape"], nlohmann::json::array());
  EXPECT_FALSE(nlohmann::json::parse(inspect_json(example_index(), false)).contains("tensors"));
}

}  // namespace
}  // namespace slabload
