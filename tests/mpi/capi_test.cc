// The C interface and the C++ layer over it: the index, the boxes, and arguments that make no sense. The
// loads are in capi_load_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <slabload/slabload.hpp>

#include "fakes/safetensors_bytes.h"
#include "fakes/temp_folder.h"
#include "tools/odd_hdf5.h"

namespace {

namespace api = slabload_api;
using slabload::testing::counting_bytes;
using slabload::testing::safetensors_bytes;
using slabload::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Capi, HasAVersion) {
  EXPECT_THAT(slabload_version(), ::testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+([+].+)?"));
}

TEST(Capi, ReadsTheIndexOfASafetensorsFile) {
  TempFolder folder;
  std::string json =
      R"({"a":{"dtype":"BF16","shape":[5,2],"data_offsets":[0,20]},"b":{"dtype":"I64","shape":[],"data_offsets":[20,28]}})";
  std::string path = folder.write("m.safetensors", safetensors_bytes(json, counting_bytes(28)));
  api::Index index = api::Index::open(path);
  slabload_index_info info = index.info();
  EXPECT_EQ(info.path, path);
  EXPECT_STREQ(info.format, "safetensors");
  EXPECT_EQ(info.tensors, 2u);
  EXPECT_EQ(info.skipped, 0u);
  EXPECT_EQ(info.bytes, 28u);
  slabload_tensor a = index[index.find("a")];
  EXPECT_STREQ(a.name, "a");
  EXPECT_STREQ(a.dtype, "bf16");
  EXPECT_EQ(a.element_bytes, 2u);
  ASSERT_EQ(a.ndim, 2u);
  EXPECT_EQ(a.shape[0], 5u);
  EXPECT_EQ(a.shape[1], 2u);
  EXPECT_EQ(a.bytes, 20u);
  EXPECT_STREQ(a.storage, "contiguous");
  EXPECT_EQ(a.file, path);
  EXPECT_EQ(a.is_contiguous, 1);
  EXPECT_EQ(a.offset, 8 + json.size());
  EXPECT_EQ(a.is_big_endian, 0);
  EXPECT_EQ(a.has_crc64, 0);
  slabload_tensor b = index[index.find("b")];
  EXPECT_EQ(b.ndim, 0u);
  EXPECT_STREQ(b.dtype, "i64");
  EXPECT_EQ(b.offset, 8 + json.size() + 20);
}

TEST(Capi, ListsWhatIsNoTensorAndFurtherNames) {
  TempFolder folder;
  slabload::testing::OddFile odd = slabload::testing::write_odd_hdf5(folder / "odd.h5");
  api::Index index = api::Index::open(folder / "odd.h5");
  ASSERT_EQ(index.size(), odd.tensors.size());
  int swapped = 0;
  for (const auto& want : odd.tensors) {
    SCOPED_TRACE(want.name);
    std::uint64_t number = index.find(want.name);
    slabload_tensor tensor = index[number];
    EXPECT_EQ(std::vector<std::uint64_t>(tensor.shape, tensor.shape + tensor.ndim), want.shape);
    EXPECT_EQ(tensor.bytes, want.bytes.size());
    EXPECT_EQ(tensor.is_big_endian != 0, want.big_endian);
    EXPECT_EQ(tensor.is_contiguous != 0, want.storage == slabload::StorageKind::contiguous);
    EXPECT_TRUE(tensor.is_contiguous || tensor.offset == 0);
    EXPECT_EQ(index.aliases(number), want.aliases);
    for (const std::string& alias : want.aliases) EXPECT_EQ(index.find(alias), number);
    swapped += want.big_endian;
  }
  EXPECT_GT(swapped, 0);
  auto skipped = index.skipped();
  ASSERT_EQ(skipped.size(), odd.skipped.size());
  ASSERT_FALSE(skipped.empty());
  std::sort(skipped.begin(), skipped.end());
  for (std::size_t i = 0; i < skipped.size(); ++i) {
    EXPECT_EQ(skipped[i].first, odd.skipped[i].name);
    EXPECT_THAT(skipped[i].second, HasSubstr(odd.skipped[i].reason_word));
  }
}

// A checkpoint with vectors of 2, 5 and 7 elements and a 6x9 matrix.
api::Index small_index(const TempFolder& folder) {
  std::string json =
      R"({"n2":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"n5":{"dtype":"U8","shape":[5],"data_offsets":[2,7]},)"
      R"("n7":{"dtype":"U8","shape":[7],"data_offsets":[7,14]},"m":{"dtype":"U8","shape":[6,9],"data_offsets":[14,68]}})";
  return api::Index::open(folder.write("small.safetensors", safetensors_bytes(json, counting_bytes(68))));
}

// "2@0 2@2 1@4 0@5": size@offset in a dimension, for each rank.
std::string places(const api::Layout& layout, const api::Index& index, const char* name, std::uint64_t ranks,
                   std::size_t dimension = 0) {
  std::string out;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    slabload_box box = layout.box(index, index.find(name), rank);
    out += (rank == 0 ? "" : " ") + std::to_string(box.extent[dimension]) + "@" +
           std::to_string(box.start[dimension]);
  }
  return out;
}

TEST(Capi, GivesTheBoxesOfTheWorkedExamples) {
  TempFolder folder;
  api::Index index = small_index(folder);
  EXPECT_EQ(places(api::Layout::preset("fsdp2", "", 4), index, "n5", 4), "2@0 2@2 1@4 0@5");
  EXPECT_EQ(places(api::Layout::preset("fsdp2", "dp_shard=8", 8), index, "n2", 8),
            "1@0 1@1 0@2 0@2 0@2 0@2 0@2 0@2");
  EXPECT_EQ(places(api::Layout::preset("hsdp", "dp_replicate=2,dp_shard=4", 8), index, "n7", 8),
            "2@0 2@2 2@4 1@6 2@0 2@2 2@4 1@6");
  const char* twice = R"-({"default": {"a": "S(0)", "b": "S(0)"}})-";
  EXPECT_EQ(places(api::Layout::rules(twice, "a=2,b=2", 4), index, "n5", 4), "2@0 1@2 1@3 1@4");
  EXPECT_EQ(places(api::Layout::rules(twice, "a=4,b=2", 8), index, "n2", 8),
            "1@0 0@2 1@1 0@2 0@2 0@2 0@2 0@2");
  EXPECT_EQ(places(api::Layout::preset("replicate", "", 3), index, "n7", 3), "7@0 7@0 7@0");
}

TEST(Capi, TakesTheMeshOfTheRules) {
  TempFolder folder;
  api::Index index = small_index(folder);
  api::Layout layout = api::Layout::rules(
      R"-({"mesh": "dp=2,tp=3", "rules": [{"match": "m", "placements": {"dp": "S(0)", "tp": "S(-1)"}}],)-"
      R"-( "default": {}})-",
      "", 6);
  EXPECT_EQ(places(layout, index, "m", 6, 0), "3@0 3@0 3@0 3@3 3@3 3@3");
  EXPECT_EQ(places(layout, index, "m", 6, 1), "3@0 3@3 3@6 3@0 3@3 3@6");
  EXPECT_EQ(places(layout, index, "n7", 6), "7@0 7@0 7@0 7@0 7@0 7@0");
  slabload_box box = layout.box(index, index.find("m"), 5);
  EXPECT_EQ(box.ndim, 2u);
  EXPECT_THAT(std::vector<std::uint64_t>(box.start, box.start + 3), ElementsAre(3, 6, 0));
}

TEST(Capi, AnswersNullAndNonsenseWithUsage) {
  TempFolder folder;
  api::Index held = small_index(folder);
  api::Layout layout_held = api::Layout::preset("fsdp2", "", 2);
  slabload_index* index = held.get();
  slabload_layout* layout = layout_held.get();
  slabload_index* no_index = nullptr;
  slabload_layout* no_layout = nullptr;
  slabload_index_info info;
  slabload_tensor tensor;
  slabload_box box;
  slabload_shard shard;
  slabload_shards_info shards_info;
  std::uint64_t number;
  const char *name, *reason;
  slabload_error* error = nullptr;
  // The error is made anew by each call, and no error is left behind by one that succeeds.
  auto usage = [&](slabload_status status, const std::string& words) {
    EXPECT_EQ(status, SLABLOAD_USAGE) << words;
    EXPECT_EQ(slabload_error_status(error), SLABLOAD_USAGE);
    EXPECT_THAT(slabload_error_message(error), HasSubstr(words));
    EXPECT_EQ(slabload_error_agreed(error), 0);
  };
  usage(slabload_index_open(nullptr, &no_index, &error), "`path`");
  usage(slabload_index_open("x", nullptr, &error), "`index`");
  usage(slabload_index_get_info(nullptr, &info, &error), "`index`");
  usage(slabload_index_get_info(index, nullptr, &error), "`info`");
  usage(slabload_index_get_tensor(nullptr, 0, &tensor, &error), "`index`");
  usage(slabload_index_get_tensor(index, 0, nullptr, &error), "`tensor`");
  usage(slabload_index_get_tensor(index, 4, &tensor, &error), "no tensor 4: there are 4");
  usage(slabload_index_get_alias(nullptr, 0, 0, &name, &error), "`index`");
  usage(slabload_index_get_alias(index, 0, 0, nullptr, &error), "`name`");
  usage(slabload_index_get_alias(index, 0, 0, &name, &error), "no alias 0");
  usage(slabload_index_find(nullptr, "m", &number, &error), "`index`");
  usage(slabload_index_find(index, nullptr, &number, &error), "`name`");
  usage(slabload_index_find(index, "m", nullptr, &error), "`number`");
  usage(slabload_index_find(index, "zz", &number, &error), "zz");
  usage(slabload_index_get_skipped(nullptr, 0, &name, &reason, &error), "`index`");
  usage(slabload_index_get_skipped(index, 0, nullptr, &reason, &error), "`name`");
  usage(slabload_index_get_skipped(index, 0, &name, nullptr, &error), "`reason`");
  usage(slabload_index_get_skipped(index, 0, &name, &reason, &error), "no skipped object 0");
  usage(slabload_layout_preset(nullptr, nullptr, 2, &no_layout, &error), "`preset`");
  usage(slabload_layout_preset("fsdp2", nullptr, 2, nullptr, &error), "`layout`");
  usage(slabload_layout_preset("fsdp2", nullptr, 0, &no_layout, &error), "0 is no number of ranks");
  usage(slabload_layout_preset("fsdp2", nullptr, UINT64_MAX, &no_layout, &error), "no number of ranks");
  usage(slabload_layout_preset("fsdp2", "", 2, &no_layout, &error), "mesh is empty");
  usage(slabload_layout_preset("fsdp2", "dp_shard=3", 2, &no_layout, &error), "3 ranks");
  usage(slabload_layout_preset("hsdp", nullptr, 2, &no_layout, &error), "dp_replicate");
  usage(slabload_layout_preset("x.json", nullptr, 2, &no_layout, &error), "slabload_layout_rules");
  usage(slabload_layout_rules(nullptr, nullptr, 2, &no_layout, &error), "`json`");
  usage(slabload_layout_rules("{}", nullptr, 2, nullptr, &error), "`layout`");
  usage(slabload_layout_rules("{", nullptr, 2, &no_layout, &error), "rules.json: not JSON");
  usage(slabload_layout_get_box(nullptr, index, 0, 0, &box, &error), "`layout`");
  usage(slabload_layout_get_box(layout, nullptr, 0, 0, &box, &error), "`index`");
  usage(slabload_layout_get_box(layout, index, 0, 0, nullptr, &error), "`box`");
  usage(slabload_layout_get_box(layout, index, 4, 0, &box, &error), "no tensor 4");
  usage(slabload_layout_get_box(layout, index, 0, 2, &box, &error), "no rank 2");
  usage(slabload_shards_get_info(nullptr, &shards_info, &error), "`shards`");
  usage(slabload_shards_get(nullptr, 0, &shard, &error), "`shards`");
  usage(slabload_shards_find(nullptr, "m", &number, &error), "`shards`");
  EXPECT_EQ(no_index, nullptr);
  EXPECT_EQ(no_layout, nullptr);
  EXPECT_EQ(slabload_index_find(index, "m", &number, &error), SLABLOAD_OK);
  EXPECT_EQ(error, nullptr);
  EXPECT_EQ(slabload_error_status(nullptr), SLABLOAD_OK);
  EXPECT_STREQ(slabload_error_message(nullptr), "");
  EXPECT_EQ(slabload_error_agreed(nullptr), 0);
  // Nobody has to take the error, and nothing has to be there to be freed.
  EXPECT_EQ(slabload_index_find(index, "zz", &number, nullptr), SLABLOAD_USAGE);
  slabload_error_free(nullptr);
  slabload_index_free(nullptr);
  slabload_layout_free(nullptr);
  slabload_shards_free(nullptr);
}

TEST(Capi, SaysWhichFileItCannotRead) {
  try {
    api::Index::open("/nonexistent/m.h5");
    ADD_FAILURE() << "no error";
  } catch (const api::Error& error) {
    EXPECT_EQ(error.status(), SLABLOAD_FILE);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/m.h5"));
  }
}

TEST(Capi, HandlesMoveAndDoNotCopy) {
  static_assert(!std::is_copy_constructible_v<api::Index> && !std::is_copy_assignable_v<api::Shards>);
  static_assert(std::is_nothrow_move_constructible_v<api::Layout>);
  TempFolder folder;
  api::Index first = small_index(folder);
  slabload_tensor tensor = first[0];
  api::Index second = std::move(first);
  EXPECT_EQ(first.get(), nullptr);
  EXPECT_EQ(second[0].name, tensor.name);
  EXPECT_THROW(first.info(), api::Error);
}

}  // namespace
