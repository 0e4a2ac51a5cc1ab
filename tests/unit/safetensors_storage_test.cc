// Safetensors checkpoints on disk: finding the shards, reading boxes, noticing changes, writing shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/safetensors/index.h"
#include "backend/safetensors/shard_file.h"
#include "backend/safetensors/storage.h"
#include "base/error.h"
#include "fakes/safetensors_bytes.h"
#include "fakes/temp_folder.h"

namespace slabload {
namespace {

namespace fs = std::filesystem;
using slabload::testing::counting_bytes;
using slabload::testing::safetensors_bytes;
using slabload::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The message of the Status::file error that `step` throws; "nothing thrown" if none.
template <typename Step>
std::string refusal(Step&& step) {
  try {
    step();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file) << error.message();
    return error.message();
  }
  return "nothing thrown";
}

// A shard of U8 tensors, one after the other, each (size,) long, filled with its first letter.
std::string shard(const std::vector<std::pair<std::string, int>>& tensors, const std::string& metadata = "") {
  std::string json = "{" + metadata;
  std::string data;
  for (const auto& [name, size] : tensors) {
    json += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})",
                        json.size() > 1 ? "," : "", name, size, data.size(), data.size() + size);
    data += std::string(static_cast<std::size_t>(size), name[0]);
  }
  return safetensors_bytes(json + "}", data);
}

std::vector<std::string> tensor_names(const TensorIndex& index) {
  std::vector<std::string> out;
  for (const TensorMeta& t : index.tensors) out.push_back(t.name);
  return out;
}

TEST(SafetensorsIndex, ReadsOneFile) {
  TempFolder folder;
  std::string json = R"({"__metadata__":{"format":"pt"},)"
                     R"("w":{"dtype":"I16","shape":[2,3],"data_offsets":[2,14]},)"
                     R"("b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  std::string path = folder.write("m.safetensors", safetensors_bytes(json, counting_bytes(14)));
  TensorIndex index = read_safetensors_index(path);
  EXPECT_EQ(index.format, "safetensors");
  EXPECT_EQ(index.path, path);
  EXPECT_THAT(tensor_names(index), ElementsAre("b", "w"));
  EXPECT_EQ(index.tensors[1].path, "w");
  EXPECT_EQ(index.tensors[1].dtype, DType::i16);
  EXPECT_EQ(index.tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(index.tensors[1].offset, 8 + json.size() + 2);
  EXPECT_EQ(index.tensors[1].stored_bytes, 12u);
  EXPECT_EQ(index.tensors[1].storage, StorageKind::contiguous);
  EXPECT_FALSE(index.tensors[1].big_endian);
  EXPECT_FALSE(index.tensors[1].crc64.has_value());
  EXPECT_EQ(index.metadata.at("format"), "pt");
  EXPECT_EQ(index.metadata_bytes, 8 + json.size());
  struct stat s;
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  ASSERT_EQ(index.files.size(), 1u);
  EXPECT_EQ(index.files[0].path, path);
  EXPECT_EQ(index.files[0].size, 8 + json.size() + 14);
  EXPECT_EQ(index.files[0].inode, s.st_ino);
  EXPECT_EQ(index.files[0].mtime_ns, s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec);
}

TEST(SafetensorsIndex, ReadsAFolderOfShards) {
  TempFolder folder;
  folder.write("b.safetensors", shard({{"x", 3}}, R"("__metadata__":{"k":"second","only":"here"})"));
  folder.write("a.safetensors", shard({{"y", 2}, {"z", 1}}, R"("__metadata__":{"k":"first"})"));
  folder.write("config.json", "{}");
  folder.write(".hidden.safetensors", "junk");
  TensorIndex index = read_safetensors_index(folder.path());
  EXPECT_THAT(tensor_names(index), ElementsAre("y", "z", "x"));
  ASSERT_EQ(index.files.size(), 2u);
  EXPECT_EQ(index.files[0].path, folder / "a.safetensors");
  EXPECT_EQ(index.tensors[2].file, 1u);
  EXPECT_EQ(index.metadata.at("k"), "first");
  EXPECT_EQ(index.metadata.at("only"), "here");
}

TEST(SafetensorsIndex, RefusesAFolderWithoutShardsAndATensorInTwo) {
  TempFolder folder;
  auto read = [&] { read_safetensors_index(folder.path()); };
  EXPECT_THAT(refusal(read), AllOf(HasSubstr(folder.path()), HasSubstr("no *.safetensors")));
  folder.write("a.safetensors", shard({{"x", 3}}));
  folder.write("b.safetensors", shard({{"y", 2}, {"x", 3}}));
  EXPECT_THAT(refusal(read),
              AllOf(HasSubstr("tensor x"), HasSubstr("a.safetensors"), HasSubstr("b.safetensors")));
  EXPECT_THAT(refusal([&] { read_safetensors_index(folder / "none.safetensors"); }),
              HasSubstr("none.safetensors"));
}

TEST(SafetensorsIndex, FollowsAnIndexFile) {
  TempFolder folder;
  folder.write("a.safetensors", shard({{"x", 3}, {"y", 1}}));
  folder.write("b.safetensors", shard({{"z", 2}}));
  folder.write("other.safetensors", shard({{"x", 3}}));  // not in the index: not read
  std::string index_file = folder.write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":6},"weight_map":{"z":"b.safetensors","x":"a.safetensors","y":"a.safetensors"}})");
  folder.write("pytorch_model.bin.index.json", "{}");
  for (const std::string& path : {index_file, folder.path()}) {
    TensorIndex index = read_safetensors_index(path);
    EXPECT_THAT(tensor_names(index), ElementsAre("x", "y", "z")) << path;
    EXPECT_EQ(index.files.size(), 2u);
    EXPECT_EQ(index.files[index.tensors[2].file].path, folder / "b.safetensors");
  }
}

TEST(SafetensorsIndex, RefusesEveryLieOfAnIndexFile) {
  TempFolder folder;
  folder.write("a.safetensors", shard({{"x", 3}, {"y", 1}}));
  folder.write("b.safetensors", shard({{"z", 2}}));
  folder.write("c.safetensors", shard({{"x", 3}}));
  struct {
    const char* text;
    const char* tensor;
    const char* message;
  } lies[] = {
      {"[]", "", "object was expected, not a list"},
      {"{}", "", "no weight_map"},
      {"{", "", "not JSON"},
      {R"({"weight_map":[]})", "", "weight_map is a list"},
      {R"({"weight_map":{"x":1}})", "tensor x", "a number, not a file name"},
      {R"({"weight_map":{"x":"a.safetensors","x":"a.safetensors"}})", "'x'", "given twice"},
      {R"({"weight_map":{"x":"/etc/passwd"}})", "tensor x", "not a plain name"},
      {R"({"weight_map":{"x":"../a.safetensors"}})", "tensor x", "not a plain name"},
      {R"({"weight_map":{"x":".."}})", "tensor x", "not a plain name"},
      {R"({"weight_map":{"x":""}})", "tensor x", "not a plain name"},
      {R"({"weight_map":{"x":"a.safetensors\u0000"}})", "tensor x", "not a plain name"},
      {R"({"weight_map":{"x":"gone.safetensors"}})", "tensor x", "gone.safetensors"},
      {R"({"weight_map":{"x":"a.safetensors"}})", "tensor y", "a.safetensors is not in the index"},
      {R"({"weight_map":{"x":"a.safetensors","y":"a.safetensors","n":"a.safetensors"}})", "tensor n",
       "is not in a.safetensors"},
      {R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors","z":"b.safetensors"}})", "tensor y",
       "is not in b.safetensors"},
      {R"({"weight_map":{"x":"a.safetensors","y":"c.safetensors"}})", "tensor x", "c.safetensors"},
  };
  for (const auto& lie : lies) {
    std::string path = folder.write("x.index.json", lie.text);
    EXPECT_THAT(refusal([&] { read_safetensors_index(path); }),
                AllOf(HasSubstr(lie.tensor), HasSubstr(lie.message)))
        << lie.text;
  }
}

TEST(SafetensorsIndex, TellsSafetensorsFromOtherFiles) {
  TempFolder folder;
  EXPECT_TRUE(looks_like_safetensors(folder.path()));
  EXPECT_TRUE(looks_like_safetensors("no/such/file.safetensors"));
  EXPECT_TRUE(looks_like_safetensors("no/such/model.safetensors.index.json"));
  EXPECT_TRUE(looks_like_safetensors(folder.write("blob", shard({{"x", 1}}))));
  EXPECT_FALSE(looks_like_safetensors(folder.write("m.h5", "\x89HDF\r\n\x1a\n" + std::string(100, '\0'))));
  EXPECT_FALSE(looks_like_safetensors(folder.write("empty", "")));
  EXPECT_FALSE(looks_like_safetensors("no/such/file"));
}

// A (4, 6) tensor of U16 whose element i has the value i, behind 3 bytes of another tensor.
std::string grid_file() {
  std::string data = "abc";
  for (int i = 0; i < 24; ++i) data += std::string{static_cast<char>(i), '\0'};
  return safetensors_bytes(R"({"first":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                           R"("grid":{"dtype":"U16","shape":[4,6],"data_offsets":[3,51]},)"
                           R"("one":{"dtype":"U8","shape":[],"data_offsets":[51,52]}})",
                           data + "!");
}

TEST(SafetensorsStorage, ReadsBoxesAndCountsRequests) {
  TempFolder folder;
  TensorIndex index = read_safetensors_index(folder.write("g.safetensors", grid_file()));
  SafetensorsStorage storage(index);
  const TensorMeta& grid = *index.find("grid");

  std::vector<std::uint16_t> whole(24, 999);
  storage.read(grid, whole_box(grid.shape), whole.data());
  for (std::uint16_t i = 0; i < 24; ++i) EXPECT_EQ(whole[i], i);
  EXPECT_EQ(storage.counters().requests, 1u);
  EXPECT_EQ(storage.counters().bytes, 48u);

  std::vector<std::uint16_t> rows(12, 999);  // rows 1 and 2: one run
  storage.read(grid, Box{{1, 0}, {2, 6}}, rows.data());
  for (std::uint16_t i = 0; i < 12; ++i) EXPECT_EQ(rows[i], 6 + i);
  EXPECT_EQ(storage.counters().requests, 2u);

  std::vector<std::uint16_t> columns(6, 999);  // columns 4 and 5 of rows 1 to 3: a run a row
  storage.read(grid, Box{{1, 4}, {3, 2}}, columns.data());
  EXPECT_THAT(columns, ElementsAre(10, 11, 16, 17, 22, 23));
  EXPECT_EQ(storage.counters().requests, 5u);
  EXPECT_EQ(storage.counters().bytes, 48u + 24 + 12);

  char one = 0;
  storage.read(*index.find("one"), Box{}, &one);
  EXPECT_EQ(one, '!');

  Box box{{3, 5}, {1, 1}};
  std::uint16_t last = 0;
  storage.read_collective(grid, &box, &last);
  EXPECT_EQ(last, 23);
  storage.read_collective(grid, nullptr, nullptr);
  EXPECT_FALSE(storage.collective(grid));
  storage.check_unchanged();
}

TEST(SafetensorsStorage, ReadsFromSeveralFiles) {
  TempFolder folder;
  for (char c = 'a'; c <= 'e'; ++c) {
    folder.write(std::string(1, c) + ".safetensors", shard({{std::string(1, c), 2}}));
  }
  TensorIndex index = read_safetensors_index(folder.path());
  SafetensorsStorage storage(index);
  std::string all;
  for (auto t = index.tensors.rbegin(); t != index.tensors.rend(); ++t) {
    char two[2];
    storage.read(*t, whole_box(t->shape), two);
    all.append(two, 2);
  }
  EXPECT_EQ(all, "eeddccbbaa");
}

TEST(SafetensorsStorage, NoticesEveryChangeOfTheFile) {
  TempFolder folder;
  std::string path = folder.write("g.safetensors", grid_file());
  TensorIndex index = read_safetensors_index(path);
  const TensorMeta& grid = *index.find("grid");
  std::vector<std::uint16_t> out(24, 999);

  SafetensorsStorage open(index);  // opens the file while it is still whole
  open.read(grid, Box{{0, 0}, {1, 1}}, out.data());
  fs::resize_file(path, index.tensors[1].offset + 20);
  EXPECT_THAT(
      refusal([&] { open.read(grid, whole_box(grid.shape), out.data()); }),
      AllOf(HasSubstr(path), HasSubstr("tensor grid"), HasSubstr("[0:4, 0:6]"), HasSubstr("cut short")));
  EXPECT_THAT(refusal([&] { open.check_unchanged(); }), AllOf(HasSubstr(path), HasSubstr("changed")));
  SafetensorsStorage late(index);
  EXPECT_THAT(refusal([&] {
                late.read(grid, Box{{0, 0}, {1, 1}}, out.data());
              }),
              AllOf(HasSubstr("changed"), HasSubstr("tensor grid")));

  fs::remove(path);
  EXPECT_THAT(refusal([&] { open.check_unchanged(); }), HasSubstr(path));

  // Same name and size, another file.
  path = folder.write("h.safetensors", grid_file());
  index = read_safetensors_index(path);
  SafetensorsStorage replaced(index);
  replaced.read(*index.find("grid"), Box{{0, 0}, {1, 1}}, out.data());
  replaced.check_unchanged();
  fs::rename(folder.write("new", grid_file()), path);
  EXPECT_THAT(refusal([&] { replaced.check_unchanged(); }), HasSubstr("changed"));

  // Same file and size, written to.
  path = folder.write("i.safetensors", grid_file());
  index = read_safetensors_index(path);
  SafetensorsStorage touched(index);
  touched.read(*index.find("grid"), Box{{0, 0}, {1, 1}}, out.data());
  SafetensorsStorage idle(index);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_THAT(refusal([&] { touched.check_unchanged(); }), HasSubstr("changed"));
  idle.check_unchanged();  // it is for those to ask who read from the file
}

TEST(SafetensorsStorage, RefusesWhatIsNoRegularFile) {
  TempFolder folder;
  std::string path = folder / "pipe.safetensors";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { read_safetensors_index(path); }),
              AllOf(HasSubstr(path), HasSubstr("not a regular file")));
}

// The header of a written file, read without the code under test.
nlohmann::json header_of(const std::string& bytes, std::uint64_t* data_start) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  *data_start = 8 + length;
  return nlohmann::json::parse(bytes.substr(8, length));
}

TEST(ShardFile, WritesWhatTheFormatAsksFor) {
  TempFolder folder;
  const std::string bytes_u8 = counting_bytes(5);
  const std::string bytes_f64 = counting_bytes(16, 100);
  const std::string bytes_bf16 = counting_bytes(2, 200);
  const std::string odd = "a/b \"q\" \\ \xc3\xa9\n";
  write_shard_file(folder / "out.safetensors",
                   {{odd, DType::u8, Shape{5}, bytes_u8.data()},
                    {"wide", DType::f64, Shape{1, 2}, bytes_f64.data()},
                    {"scalar", DType::bf16, Shape{}, bytes_bf16.data()},
                    {"none", DType::f32, Shape{0, 3}, nullptr}},
                   {{"rank", "3"}, {"say \"x\"", ""}});
  std::string file = folder.read("out.safetensors");
  std::uint64_t data = 0;
  nlohmann::json header = header_of(file, &data);
  EXPECT_EQ(data % 8, 0u);
  EXPECT_EQ(file[8], '{');
  EXPECT_EQ(file.size(), data + 5 + 16 + 2);
  EXPECT_EQ(header.size(), 5u);
  EXPECT_EQ(header["__metadata__"], (nlohmann::json{{"rank", "3"}, {"say \"x\"", ""}}));
  auto content = [&](const std::string& name) {
    auto offsets = header.at(name).at("data_offsets").get<std::vector<std::uint64_t>>();
    return file.substr(data + offsets[0], offsets[1] - offsets[0]);
  };
  EXPECT_EQ(content(odd), bytes_u8);
  EXPECT_EQ(content("wide"), bytes_f64);
  EXPECT_EQ(content("scalar"), bytes_bf16);
  EXPECT_EQ(content("none"), "");
  EXPECT_EQ(header["wide"]["dtype"], "F64");
  EXPECT_EQ(header["wide"]["shape"], (nlohmann::json{1, 2}));
  EXPECT_EQ(header["scalar"]["shape"], nlohmann::json::array());
  EXPECT_EQ(header["wide"]["data_offsets"][0].get<std::uint64_t>() % 8, 0u);
  EXPECT_EQ(header["scalar"]["data_offsets"][0].get<std::uint64_t>() % 2, 0u);

  // And our own reader takes it.
  TensorIndex index = read_safetensors_index(folder / "out.safetensors");
  EXPECT_EQ(index.tensors.size(), 4u);
  EXPECT_NE(index.find(odd), nullptr);

  // Only the file itself is left, with the mode that the umask gives.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat s;
  ASSERT_EQ(::stat((folder / "out.safetensors").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0666 & ~mask);
}

TEST(ShardFile, WritesAnEmptyShard) {
  TempFolder folder;
  write_shard_file(folder / "out.safetensors", {}, {});
  EXPECT_EQ(folder.read("out.safetensors"), safetensors_bytes("{}      ", ""));
}

TEST(ShardFile, ReplacesOnlyWhenToldAndNeverThroughALink) {
  TempFolder folder;
  const char byte = 'x';
  std::vector<ShardTensor> tensors = {{"t", DType::u8, Shape{1}, &byte}};
  std::string path = folder.write("out.safetensors", "old");
  EXPECT_THAT(refusal([&] { write_shard_file(path, tensors, {}); }),
              AllOf(HasSubstr(path), HasSubstr("exists")));
  EXPECT_EQ(folder.read("out.safetensors"), "old");
  write_shard_file(path, tensors, {}, true);
  EXPECT_EQ(folder.read("out.safetensors").back(), 'x');

  std::string precious = folder.write("precious", "keep");
  std::string link = folder / "link.safetensors";
  fs::create_symlink(precious, link);
  EXPECT_THAT(refusal([&] { write_shard_file(link, tensors, {}); }), HasSubstr("exists"));
  write_shard_file(link, tensors, {}, true);
  EXPECT_FALSE(fs::is_symlink(link));
  EXPECT_EQ(folder.read("precious"), "keep");

  fs::create_symlink(folder / "nowhere", folder / "dangling.safetensors");
  EXPECT_THAT(refusal([&] { write_shard_file(folder / "dangling.safetensors", tensors, {}); }),
              HasSubstr("exists"));
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
}

TEST(ShardFile, RefusesNamesThatTheFormatCannotHold) {
  TempFolder folder;
  const char byte = 'x';
  auto write = [&](const std::vector<std::string>& tensor_names) {
    std::vector<ShardTensor> tensors;
    for (const auto& name : tensor_names) tensors.push_back({name, DType::u8, Shape{1}, &byte});
    return refusal([&] { write_shard_file(folder / "out.safetensors", tensors, {}); });
  };
  EXPECT_THAT(write({"t", "t"}), HasSubstr("tensor t is given twice"));
  EXPECT_THAT(write({"__metadata__"}), HasSubstr("__metadata__"));
  EXPECT_THAT(write({"a\xff"}), HasSubstr("not UTF-8"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ShardFile, LeavesNothingBehindWhenWritingFails) {
  TempFolder folder;
  EXPECT_THAT(refusal([&] { write_shard_file(folder / "no/such/out.safetensors", {}, {}); }),
              HasSubstr("no/such"));

  // A file that may not grow stands in for a full disk: the write fails half way.
  std::string data(100000, 'x');
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message = refusal([&] {
    write_shard_file(folder / "out.safetensors", {{"t", DType::u8, Shape{100000}, data.data()}}, {});
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("out.safetensors"), HasSubstr("cannot write")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace slabload
