// What the index says of an HDF5 file with everything in it, and of files that are none.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <mpi.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "backend/hdf5/index.h"
#include "base/error.h"
#include "tools/odd_hdf5.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

using slabload::testing::OddFile;
using slabload::testing::OddObject;
using slabload::testing::OddTensor;
using slabload::testing::SharedFolder;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Every rank writes a file of its own: the index needs no other rank.
std::string own_file(const SharedFolder& folder) {
  return folder / ("odd" + std::to_string(folder.rank()) + ".h5");
}

std::string message_of(const std::string& path) {
  try {
    read_hdf5_index(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    return error.message();
  }
  return "no error";
}

// The place of a run of bytes in a file, by looking for it.
std::uint64_t find_in_file(const std::string& path, const std::string& bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return all.find(bytes);
}

void write_bytes_at(const std::string& path, const std::string& bytes, off_t offset) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), offset), static_cast<ssize_t>(bytes.size()));
  close(fd);
}

void check_index(const TensorIndex& index, const OddFile& odd) {
  ASSERT_EQ(index.tensors.size(), odd.tensors.size());
  for (const OddTensor& want : odd.tensors) {
    SCOPED_TRACE(want.name);
    const TensorMeta* got = index.find(want.name);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->name, want.name);
    EXPECT_EQ(got->aliases, want.aliases);
    EXPECT_EQ(got->path, "/" + want.name);
    EXPECT_EQ(got->dtype, want.dtype);
    EXPECT_TRUE(std::ranges::equal(got->shape.lengths(), want.shape));
    EXPECT_EQ(got->big_endian, want.big_endian);
    EXPECT_EQ(got->storage, want.storage);
    EXPECT_FALSE(got->crc64.has_value());
  }
  ASSERT_EQ(index.skipped.size(), odd.skipped.size());
  for (std::size_t i = 0; i < odd.skipped.size(); ++i) {
    EXPECT_EQ(index.skipped[i].name, odd.skipped[i].name);
    EXPECT_THAT(index.skipped[i].reason, HasSubstr(odd.skipped[i].reason_word)) << odd.skipped[i].name;
  }
}

TEST(Hdf5Index, NamesEveryTensorAndEveryReason) {
  SharedFolder folder;
  std::string path = own_file(folder);
  OddFile odd = slabload::testing::write_odd_hdf5(path);
  TensorIndex index = read_hdf5_index(path);
  check_index(index, odd);
  EXPECT_EQ(index.format, "hdf5");
  EXPECT_THAT(index.metadata, ElementsAre(Pair("author", "someone")));
  ASSERT_EQ(index.files.size(), 1u);
  EXPECT_EQ(index.files[0].size, std::filesystem::file_size(path));
  EXPECT_EQ(index.tensors.size(), index_from_bytes(to_bytes(index)).tensors.size());
}

TEST(Hdf5Index, OffsetsIncludeTheUserBlock) {
  SharedFolder folder;
  std::string path = own_file(folder);
  OddFile odd = slabload::testing::write_odd_hdf5(path, 2048);
  TensorIndex index = read_hdf5_index(path);
  check_index(index, odd);
  int checked = 0;
  for (const OddTensor& want : odd.tensors) {
    if (want.storage != StorageKind::contiguous || want.big_endian || want.bytes.size() < 64) continue;
    EXPECT_EQ(index.find(want.name)->offset, find_in_file(path, want.bytes)) << want.name;
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

TEST(Hdf5Index, DescribesChunksFiltersAndFillValues) {
  SharedFolder folder;
  std::string path = own_file(folder);
  slabload::testing::write_odd_hdf5(path);
  TensorIndex index = read_hdf5_index(path);
  const TensorMeta* gzip = index.find("storage/gzip");
  EXPECT_THAT(gzip->filters, ElementsAre("shuffle", "deflate(6)"));
  EXPECT_THAT(gzip->chunk, ElementsAre(8, 7));
  EXPECT_GT(gzip->stored_bytes, 0u);
  EXPECT_THAT(index.find("storage/fletcher")->filters, ElementsAre("fletcher32"));
  // Two chunks of 2 x 4 float32 of six are there.
  EXPECT_EQ(index.find("storage/holes")->stored_bytes, 64u);
  // 1.5f is 0x3fc00000, little-endian.
  EXPECT_THAT(index.find("storage/unwritten")->fill, ElementsAre(0, 0, 0xc0, 0x3f));
  EXPECT_TRUE(index.find("storage/unwritten_zero")->fill.empty());
}

TEST(Hdf5Index, RefusesWhatIsNoWholeHdf5File) {
  SharedFolder folder;
  std::string path = own_file(folder);
  slabload::testing::write_odd_hdf5(path);
  EXPECT_THAT(message_of(path + "-none"), AllOf(HasSubstr(path + "-none"), HasSubstr("No such file")));
  EXPECT_THAT(message_of(std::filesystem::path(path).parent_path()), HasSubstr("folder"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1000);
  EXPECT_THAT(message_of(path), HasSubstr("cut short"));
  std::string plain = path + ".txt";
  write_bytes_at(plain, "this is a text of more than eight bytes", 0);
  EXPECT_THAT(message_of(plain), HasSubstr("not an HDF5 file"));
}

TEST(Hdf5Index, RefusesAFileThatAWriterHolds) {
  SharedFolder folder;
  std::string path = own_file(folder);
  slabload::testing::write_one_tensor(path, 10);
  // The lock that HDF5's serial driver takes for writing.
  int writer = open(path.c_str(), O_RDWR);
  ASSERT_EQ(flock(writer, LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(message_of(path), AllOf(HasSubstr("held by a writer"), HasSubstr("HDF5_USE_FILE_LOCKING")));
  close(writer);
  EXPECT_EQ(read_hdf5_index(path).tensors.size(), 1u);
}

TEST(Hdf5Index, LeavesNoIdOpen) {
  SharedFolder folder;
  std::string path = own_file(folder);
  slabload::testing::write_odd_hdf5(path);
  ssize_t before = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
  read_hdf5_index(path);
  EXPECT_EQ(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), before);
}

}  // namespace
}  // namespace slabload
