// How tensors are spread over safetensors files: limits, order, names, and the texts that lead a reader to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "backend/safetensors/file_set.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using safetensors::FileSet;
using safetensors::split_into_files;
using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorIndex index_of(const std::vector<std::tuple<std::string, DType, Shape>>& tensors) {
  TensorIndex index;
  for (const auto& [name, dtype, shape] : tensors) {
    TensorMeta t;
    t.name = name;
    t.dtype = dtype;
    t.shape = shape;
    index.tensors.push_back(t);
  }
  return index;
}

// The header's JSON, read by its first eight bytes alone.
nlohmann::json json_of(const safetensors::PlannedFile& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.header.data(), 8);
  EXPECT_EQ(file.header.size(), 8 + length);
  EXPECT_EQ(length % 8, 0u);
  return nlohmann::json::parse(file.header.substr(8));
}

TEST(SafetensorsFileSet, OneFileHasTheFormatsNameAndNoNumber) {
  TensorIndex index = index_of({{"b", DType::u8, {3}}, {"a", DType::f64, {2, 2}}, {"e", DType::bf16, {0}}});
  FileSet set = split_into_files(index, 5'000'000'000, "out");
  ASSERT_EQ(set.files.size(), 1u);
  EXPECT_EQ(set.files[0].name, "model.safetensors");
  const std::string want =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F64","shape":[2,2],"data_offsets":[0,32]},)"
      R"("e":{"dtype":"BF16","shape":[0],"data_offsets":[32,32]},"b":{"dtype":"U8","shape":[3],"data_offsets":[32,35]}})";
  EXPECT_EQ(set.files[0].header.substr(8, want.size()), want);
  EXPECT_EQ(set.files[0].header.find_first_not_of(' ', 8 + want.size()), std::string::npos);
  EXPECT_EQ(set.files[0].size, set.files[0].header.size() + 35);
  EXPECT_EQ(set.places[1].offset, set.files[0].header.size());
  EXPECT_EQ(set.places[0].offset, set.files[0].header.size() + 32);
}

TEST(SafetensorsFileSet, NoFileIsLargerThanAskedForUnlessItHoldsOneTensor) {
  std::vector<std::tuple<std::string, DType, Shape>> tensors;
  for (std::uint64_t i = 0; i < 40; ++i) tensors.push_back({"t" + std::to_string(i), DType::f32, {i % 7 * 50 + 1}});
  tensors.push_back({"huge", DType::f32, {5000}});
  tensors.push_back({"after", DType::f32, {1}});
  const TensorIndex index = index_of(tensors);
  for (std::uint64_t limit : {1u, 300u, 1000u, 1500u, 4000u, 25000u, 1000000u}) {
    SCOPED_TRACE(limit);
    FileSet set = split_into_files(index, limit, "out");
    std::vector<std::uint64_t> held(set.files.size(), 0), bytes(set.files.size(), 0);
    std::uint32_t last = 0;
    for (std::size_t t = 0; t < index.tensors.size(); ++t) {
      const auto& place = set.places[t];
      ASSERT_LT(place.file, set.files.size());
      EXPECT_GE(place.file, last);  // in the index's order
      last = place.file;
      ++held[place.file];
      bytes[place.file] += index.tensors[t].bytes();
      EXPECT_EQ(place.offset % 4, 0u);
    }
    for (std::size_t f = 0; f < set.files.size(); ++f) {
      EXPECT_GE(held[f], 1u);
      EXPECT_EQ(set.files[f].size, set.files[f].header.size() + bytes[f]);
      if (held[f] > 1) {
        EXPECT_LE(set.files[f].size, limit);
      }
      EXPECT_EQ(json_of(set.files[f]).size(), held[f] + 1);
      char name[64];
      if (set.files.size() > 1) {
        std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", f + 1, set.files.size());
        EXPECT_EQ(set.files[f].name, name);
      }
    }
    if (limit == 1) {
      EXPECT_EQ(set.files.size(), index.tensors.size());
    }
    if (limit == 25000) {  // 40 tensors of 24 kB and the large one: not wasteful either
      EXPECT_LE(set.files.size(), 4u);
    }
    if (limit == 1000000) {
      EXPECT_EQ(set.files.size(), 1u);
    }
  }
  FileSet set = split_into_files(index, 15000, "out");
  const auto huge = set.places[40].file;
  EXPECT_EQ(json_of(set.files[huge]).size(), 2u);  // it and the metadata
  EXPECT_EQ(set.places[41].file, huge + 1);
}

TEST(SafetensorsFileSet, TheIndexSaysWhereEachTensorIs) {
  TensorIndex index = index_of({{"x", DType::i64, {4}}, {"\xc3\xa9\"", DType::u8, {1000}}});
  FileSet set = split_into_files(index, 600, "out");
  ASSERT_EQ(set.files.size(), 2u);
  nlohmann::json text = nlohmann::json::parse(safetensors::index_text(index, set));
  EXPECT_EQ(text, nlohmann::json::parse(R"({"metadata":{"total_size":1032},"weight_map":{
    "x":"model-00001-of-00002.safetensors","\u00e9\"":"model-00002-of-00002.safetensors"}})"));
}

TEST(SafetensorsFileSet, MetadataIsKeptWhereTheFormatAllows) {
  TensorIndex index = index_of({{"x", DType::u8, {1}}});
  index.metadata = {{"format", "np"}, {"note", "\xc3\xa4 \n"}, {"bad", "\xff"}, {"\xfe", "k"}};
  index.tensors[0].aliases = {"tied", "note"};
  EXPECT_EQ(json_of(split_into_files(index, 1000, "out").files[0])["__metadata__"],
            (nlohmann::json{{"format", "np"}, {"note", "\xc3\xa4 \n"}, {"tied", "x"}}));
  EXPECT_THAT(safetensors::metadata_left_out(index), ElementsAre("bad", "\xfe"));
}

TEST(SafetensorsFileSet, RefusesWhatTheFormatCannotHold) {
  auto refusal = [](TensorIndex index) {
    Error error = thrown_error([&] { split_into_files(index, 1000, "out"); });
    EXPECT_EQ(error.status(), Status::file);
    return error.message();
  };
  EXPECT_THAT(refusal(index_of({{"a\xff", DType::u8, {1}}})), AllOf(HasSubstr("out"), HasSubstr("not UTF-8")));
  EXPECT_THAT(refusal(index_of({{"__metadata__", DType::u8, {1}}})), HasSubstr("__metadata__"));
  // In two files, each of which would be well.
  EXPECT_THAT(refusal(index_of({{"t", DType::u8, {900}}, {"u", DType::u8, {900}}, {"t", DType::u8, {900}}})),
              HasSubstr("tensor t is given twice"));
  EXPECT_THAT(refusal(index_of({{"vast", DType::u8, {1ull << 63}}})), HasSubstr("tensor vast"));
}

TEST(SafetensorsFileSet, KnowsItsOwnNames) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                           "model-123456-of-123456.safetensors"})
    EXPECT_TRUE(safetensors::is_set_name(name)) << name;
  for (const char* name : {"", "config.json", "model.safetensors2", "model-1-of-2.safetensors", "model-00001-of-00002",
                           "xmodel.safetensors", "model-00001-of-00002.safetensors.bak", "model-0000a-of-00002.safetensors"})
    EXPECT_FALSE(safetensors::is_set_name(name)) << name;
}

}  // namespace
}  // namespace slabload
