// SafetensorsSink: what all ranks write together, read back by a few lines of their own; and folders that must stay as
// they were.
#include "backend/safetensors/sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/mpi/control.h"
#include "backend/safetensors/index.h"
#include "backend/safetensors/storage.h"
#include "exec/copier.h"
#include "mpi/sink_values.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

namespace fs = std::filesystem;
using slabload::testing::SharedFolder;
using slabload::testing::sink_error;
using slabload::testing::values_of;
using slabload::testing::write_all;
using ::testing::AllOf;
using ::testing::HasSubstr;

TensorIndex every_dtype() {
  TensorIndex index;
  auto add = [&](const std::string& name, DType dtype, const Dims& lengths) {
    TensorMeta t;
    t.name = name;
    t.dtype = dtype;
    t.shape.lengths() = lengths;
    index.tensors.push_back(t);
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    add("layers." + std::string(dtype_name(dtype)), dtype, {37, 5});
  }
  add("scalar", DType::f32, {});
  add("empty", DType::bf16, {0, 8});
  add("/../etc/passwd", DType::u16, {11});
  add("large", DType::f32, {200, 100});
  index.metadata = {{"quote", "\"\n\xc3\xa4"}};
  return index;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// {name: bytes} of a file, and its header.
std::map<std::string, std::string> read_plain(const fs::path& path, nlohmann::json* header) {
  const std::string file = text_of(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  *header = nlohmann::json::parse(file.substr(8, length));
  std::map<std::string, std::string> out;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry["data_offsets"][0].get<std::uint64_t>();
    out[name] = file.substr(8 + length + begin, entry["data_offsets"][1].get<std::uint64_t>() - begin);
  }
  return out;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void write_set(const std::string& folder, Control& control, const TensorIndex& index, std::uint64_t most,
               bool replace = false) {
  SafetensorsSink sink(folder, control, most, replace);
  sink.create(index);
  write_all(sink, index);
  sink.commit({});
}

TEST(SafetensorsSink, WritesFilesThatOthersRead) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  const TensorIndex index = every_dtype();
  const fs::path out = folder / "out";
  {
    SafetensorsSink sink(out.string() + "//", control, 4000, false);
    sink.create(index);
    write_all(sink, index);
    EXPECT_FALSE(fs::exists(out));
    MPI_Barrier(MPI_COMM_WORLD);
    sink.commit({});
  }
  EXPECT_EQ(names_in(folder / ""), (std::set<std::string>{"out"}));
  const nlohmann::json list = nlohmann::json::parse(text_of(out / "model.safetensors.index.json"));
  EXPECT_EQ(list["weight_map"].size(), index.tensors.size());
  const std::set<std::string> names = names_in(out);
  EXPECT_GT(names.size(), 3u);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  std::size_t found = 0;
  for (const std::string& name : names) {
    struct stat st {};
    ASSERT_EQ(::stat((out / name).c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0666 & ~mask);
    if (name.ends_with(".json")) continue;
    nlohmann::json header;
    for (const auto& [tensor, bytes] : read_plain(out / name, &header)) {
      SCOPED_TRACE(tensor);
      EXPECT_EQ(list["weight_map"][tensor], name);
      for (std::size_t t = 0; t < index.tensors.size(); ++t) {
        if (index.tensors[t].name != tensor) continue;
        ++found;
        EXPECT_EQ(bytes, values_of(t, index.tensors[t]));
      }
    }
    EXPECT_EQ(header["__metadata__"], (nlohmann::json{{"format", "pt"}, {"quote", "\"\n\xc3\xa4"}}));
  }
  EXPECT_EQ(found, index.tensors.size());

  // Our own reader takes the folder, and copied into one file it has the same bytes.
  TensorIndex read = read_safetensors_index(out);
  SafetensorsStorage storage(read);
  SafetensorsSink again(folder / "again", control, 1 << 20, false);
  copy_checkpoint(storage, read, again, control, 64);
  EXPECT_EQ(names_in(folder / "again"), (std::set<std::string>{"model.safetensors"}));
  nlohmann::json header;
  std::map<std::string, std::string> bytes = read_plain(fs::path(folder / "again") / "model.safetensors", &header);
  EXPECT_EQ(bytes.size(), index.tensors.size());
  for (std::size_t t = 0; t < index.tensors.size(); ++t)
    EXPECT_EQ(bytes[index.tensors[t].name], values_of(t, index.tensors[t]));
}

TEST(SafetensorsSink, KeepsWhatIsThereUnlessToldOtherwise) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  const TensorIndex index = every_dtype();
  const std::string out = folder / "out";
  write_set(out, control, index, 1 << 20);
  TensorIndex other = index;
  other.tensors.resize(3);
  {
    SafetensorsSink sink(out, control, 1 << 20, false);
    EXPECT_THAT(sink_error([&] { sink.create(other); }), AllOf(HasSubstr(out), HasSubstr("exists already")));
  }
  {
    // Given up half way, and without a word.
    SafetensorsSink sink(out, control, 100, true);
    sink.create(other);
    write_all(sink, other);
    MPI_Barrier(MPI_COMM_WORLD);  // rank 0 removes the folder
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(names_in(folder / ""), (std::set<std::string>{"out"}));
  EXPECT_EQ(read_safetensors_index(out).tensors.size(), index.tensors.size());
  MPI_Barrier(MPI_COMM_WORLD);
  write_set(out, control, other, 100, true);  // three files where there was one
  EXPECT_EQ(names_in(folder / ""), (std::set<std::string>{"out"}));
  EXPECT_EQ(names_in(out).size(), 4u);
  EXPECT_EQ(read_safetensors_index(out).tensors.size(), 3u);

  // Anything else in the folder is not ours to remove, whenever it comes.
  MPI_Barrier(MPI_COMM_WORLD);
  {
    SafetensorsSink sink(out, control, 1 << 20, true);
    sink.create(other);
    write_all(sink, other);
    folder.on_rank_0([&] { return (std::ofstream(out + "/config.json") << "precious").good(); });
    EXPECT_THAT(sink_error([&] { sink.commit({}); }), HasSubstr("config.json"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  SafetensorsSink late(out, control, 1 << 20, true);
  EXPECT_THAT(sink_error([&] { late.create(other); }), HasSubstr("config.json"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(names_in(folder / ""), (std::set<std::string>{"out"}));
  EXPECT_EQ(text_of(out + "/config.json"), "precious");
  EXPECT_EQ(read_safetensors_index(out).tensors.size(), 3u);
}

TEST(SafetensorsSink, ATargetThatIsNoFolderIsKept) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  const TensorIndex index = every_dtype();
  folder.on_rank_0([&] {
    fs::create_directory(folder / "real");
    fs::create_symlink(folder / "real", folder / "link");
    return (std::ofstream(folder / "file") << "precious").good();
  });
  for (const char* name : {"file", "link"}) {
    SafetensorsSink sink(folder / name, control, 1 << 20, true);
    EXPECT_THAT(sink_error([&] { sink.create(index); }), AllOf(HasSubstr(name), HasSubstr("no folder")));
  }
  for (const char* name : {"real/.", "real/.."}) {
    SafetensorsSink sink(folder / name, control, 1 << 20, true);
    EXPECT_THAT(sink_error([&] { sink.create(index); }), HasSubstr("no name for a new folder"));
  }
  SafetensorsSink nowhere(folder / "none/out", control, 1 << 20, false);
  EXPECT_THAT(sink_error([&] { nowhere.create(index); }), HasSubstr("No such file"));
  // One that appears meanwhile.
  {
    SafetensorsSink sink(folder / "out", control, 1 << 20, false);
    sink.create(index);
    write_all(sink, index);
    folder.on_rank_0([&] { return fs::create_directory(folder / "out"); });
    EXPECT_THAT(sink_error([&] { sink.commit({}); }), HasSubstr("exists already"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(names_in(folder / ""), (std::set<std::string>{"real", "link", "file", "out"}));
  EXPECT_TRUE(fs::is_empty(folder / "out"));
  EXPECT_EQ(text_of(folder / "file"), "precious");
}

TEST(SafetensorsSink, FailuresAreTheSameOnAllRanks) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex index = every_dtype();
  index.tensors.push_back(index.tensors.front());
  {
    SafetensorsSink sink(folder / "out", control, 1000, false);
    EXPECT_THAT(sink_error([&] { sink.create(index); }), HasSubstr("given twice"));
  }
  index.tensors.back().name = "huge";
  index.tensors.back().shape = {1024, 1024, 1024, 1024 * 1024};
  {
    SafetensorsSink sink(folder / "out", control, 1000, false);
    EXPECT_THAT(sink_error([&] { sink.create(index); }), HasSubstr("out.slabload-tmp-"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(names_in(folder / "").empty());
}

}  // namespace
}  // namespace slabload
