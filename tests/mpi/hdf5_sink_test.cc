// Hdf5Sink: what all ranks write together, read back by plain HDF5 calls; and files that must stay as they
// were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "backend/hdf5/index.h"
#include "backend/hdf5/sink.h"
#include "backend/mpi/control.h"
#include "mpi/sink_values.h"
#include "tools/odd_hdf5.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

using slabload::testing::odd_bits;
using slabload::testing::SharedFolder;
using slabload::testing::sink_error;
using slabload::testing::values_of;
using slabload::testing::write_all;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TensorMeta tensor(const std::string& name, DType dtype, const Dims& lengths) {
  TensorMeta out;
  out.name = name;
  out.dtype = dtype;
  out.shape.lengths() = lengths;
  return out;
}

TensorIndex every_dtype_and_odd_names() {
  TensorIndex index;
  for (int i = 0; i < kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    index.tensors.push_back(tensor("layers." + std::string(dtype_name(dtype)), dtype, {37, 5}));
  }
  index.tensors.push_back(tensor("scalar", DType::f32, {}));
  index.tensors.push_back(tensor("empty", DType::bf16, {0, 8}));
  index.tensors.push_back(tensor("in/a/group", DType::f32, {6}));
  index.tensors.push_back(tensor("large", DType::f32, {200, 1000}));
  for (const char* name : {"", "/a", "a/", "a//b", "./a", "a/..", "__slabload__", "__slabload__/metadata",
                           "both", "both/under", "\xc3\xa4"}) {
    index.tensors.push_back(tensor(name, DType::u16, {11}));
  }
  index.tensors.push_back(tensor(std::string("zero\0byte", 9), DType::u16, {11}));
  index.metadata = {{"format", "pt"}, {"long", std::string(100000, 'x')}, {"quote", "\"\n\xc3\xa4"}};
  return index;
}

std::vector<std::uint64_t> some_checksums(const TensorIndex& index) {
  std::vector<std::uint64_t> out;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) out.push_back(odd_bits(99, t));
  return out;
}

// All bytes of a dataset by the library alone, in the file's own type.
std::string plain_read(hid_t file, const std::string& path) {
  hid_t dataset = H5Dopen2(file, path.c_str(), H5P_DEFAULT);
  if (dataset < 0) return "no dataset " + path;
  hid_t type = H5Dget_type(dataset);
  hid_t space = H5Dget_space(dataset);
  std::string out(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type), '\x55');
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()), 0) << path;
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(dataset);
  return out;
}

std::size_t files_in(const std::string& file) {
  std::filesystem::directory_iterator entries(std::filesystem::path(file).parent_path());
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

TEST(Hdf5Sink, WritesAFileThatPlainHdf5Reads) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex index = every_dtype_and_odd_names();
  std::string path = folder / "out.h5";
  Hdf5Sink sink(path, control, false);
  sink.create(index);
  write_all(sink, index);
  EXPECT_FALSE(std::filesystem::exists(path));
  MPI_Barrier(MPI_COMM_WORLD);
  sink.commit(some_checksums(index));
  EXPECT_EQ(files_in(path), 1u);

  TensorIndex made = read_hdf5_index(path);
  EXPECT_EQ(made.metadata, index.metadata);
  EXPECT_TRUE(made.skipped.empty());
  EXPECT_EQ(made.proof, IndexProof::right);
  ASSERT_EQ(made.tensors.size(), index.tensors.size());
  hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  int odd = 0;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    const TensorMeta& want = index.tensors[t];
    SCOPED_TRACE(printable(want.name));
    const TensorMeta* got = made.find(want.name);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->dtype, want.dtype);
    EXPECT_TRUE(got->shape == want.shape);
    EXPECT_EQ(got->crc64, odd_bits(99, t));
    if (want.elements() == 0) continue;
    EXPECT_EQ(got->storage, StorageKind::contiguous);
    EXPECT_TRUE(want.bytes() < 65536 || got->offset % 4096 == 0);
    odd += got->path != "/" + want.name;
    EXPECT_EQ(plain_read(file, got->path), values_of(t, want));
  }
  EXPECT_EQ(odd, 10);  // "both" and the umlaut are names like any other
  H5Fclose(file);
}

TEST(Hdf5Sink, StoresBf16AndFp8AsHdf5TwoPredefinesThem) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex index = every_dtype_and_odd_names();
  std::string path = folder / "out.h5";
  Hdf5Sink sink(path, control, false);
  sink.create(index);
  sink.commit(some_checksums(index));
  struct Want {
    const char* path;
    size_t size, sign, exponent, exponent_size, mantissa_size, bias;
  };
  hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const Want& want :
       {Want{"/layers.bf16", 2, 15, 7, 8, 7, 127}, Want{"/layers.f16", 2, 15, 10, 5, 10, 15},
        Want{"/layers.f8_e4m3", 1, 7, 3, 4, 3, 7}, Want{"/layers.f8_e5m2", 1, 7, 2, 5, 2, 15}}) {
    hid_t dataset = H5Dopen2(file, want.path, H5P_DEFAULT);
    ASSERT_GE(dataset, 0) << want.path;
    hid_t type = H5Dget_type(dataset);
    size_t sign, exponent, exponent_size, mantissa, mantissa_size;
    EXPECT_GE(H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size), 0);
    EXPECT_EQ(H5Tget_size(type), want.size);
    EXPECT_EQ(H5Tget_precision(type), want.size * 8);
    EXPECT_EQ(sign, want.sign);
    EXPECT_EQ(exponent, want.exponent);
    EXPECT_EQ(exponent_size, want.exponent_size);
    EXPECT_EQ(mantissa, 0u);
    EXPECT_EQ(mantissa_size, want.mantissa_size);
    EXPECT_EQ(H5Tget_ebias(type), want.bias);
    EXPECT_EQ(H5Tget_norm(type), H5T_NORM_IMPLIED);
    EXPECT_EQ(H5Tget_order(type), H5T_ORDER_LE);
    H5Tclose(type);
    H5Dclose(dataset);
  }
  H5Fclose(file);
  EXPECT_EQ(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

TEST(Hdf5Sink, AnUnfinishedFileIsRefusedByTheReader) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Sink sink(folder / "out.h5", control, false);
  sink.create(every_dtype_and_odd_names());
  try {
    read_hdf5_index(sink.temporary());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("never finished"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  sink.abandon();
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(files_in(folder / "out.h5"), 0u);
}

TEST(Hdf5Sink, ANewerFormatIsRefused) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex index;
  index.tensors.push_back(tensor("a", DType::f32, {4}));
  std::string path = folder / "out.h5";
  Hdf5Sink sink(path, control, false);
  sink.create(index);
  sink.commit({1});
  folder.on_rank_0([&] {
    hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t group = H5Gopen2(file, "__slabload__", H5P_DEFAULT);
    hid_t attribute = H5Aopen(group, "format_major", H5P_DEFAULT);
    std::uint64_t two = 2;
    EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_UINT64, &two), 0);
    H5Aclose(attribute);
    H5Gclose(group);
    return H5Fclose(file);
  });
  try {
    read_hdf5_index(path);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_THAT(error.message(), HasSubstr("slabload format 2"));
  }
}

// What the library's own tools do to a file of ours: the index is no longer the one that was written.
TEST(Hdf5Sink, AnIndexThatAnotherProgramChangedIsRefused) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex index;
  index.tensors = {tensor("a", DType::f32, {4}), tensor("b", DType::f32, {4})};
  index.metadata = {{"format", "pt"}};
  struct Change {
    const char* what;
    std::function<void(hid_t file)> make;
    std::vector<std::string> tensors;  // with --trust-index
  };
  auto set_number = [](hid_t file, const char* object, const char* name, std::uint64_t value) {
    hid_t opened = H5Oopen(file, object, H5P_DEFAULT);  // H5Aopen_by_name gives what 1.10.8 cannot write to
    hid_t attribute = H5Aopen(opened, name, H5P_DEFAULT);
    EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_UINT64, &value), 0);
    H5Aclose(attribute);
    H5Oclose(opened);
  };
  const Change changes[] = {
      {"renamed", [](hid_t f) { H5Lmove(f, "a", f, "c", H5P_DEFAULT, H5P_DEFAULT); }, {"b", "c"}},
      {"removed", [](hid_t f) { H5Ldelete(f, "a", H5P_DEFAULT); }, {"b"}},
      {"added", [](hid_t f) { H5Ocopy(f, "a", f, "c", H5P_DEFAULT, H5P_DEFAULT); }, {"a", "b", "c"}},
      {"one more name", [](hid_t f) { H5Lcreate_soft("/a", f, "c", H5P_DEFAULT, H5P_DEFAULT); }, {"a", "b"}},
      {"another checksum", [&](hid_t f) { set_number(f, "/a", "slabload_crc64", 5); }, {"a", "b"}},
      {"no metadata", [](hid_t f) { H5Ldelete(f, "/__slabload__/metadata", H5P_DEFAULT); }, {"a", "b"}},
      {"no checksum of it",
       [](hid_t f) { H5Adelete_by_name(f, "/__slabload__", "index_crc64", H5P_DEFAULT); },
       {"a", "b"}},
      {"the group renamed",
       [](hid_t f) { H5Lmove(f, "__slabload__", f, "x", H5P_DEFAULT, H5P_DEFAULT); },
       {"a", "b", "x/metadata"}},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.what);
    std::string path = folder / "out.h5";
    Hdf5Sink sink(path, control, true);
    sink.create(index);
    sink.commit({1, 2});
    EXPECT_EQ(read_hdf5_index(path).proof, IndexProof::right);
    MPI_Barrier(MPI_COMM_WORLD);
    folder.on_rank_0([&] {
      hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      change.make(file);
      return H5Fclose(file);
    });
    try {
      read_hdf5_index(path);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::wrong_data);
      EXPECT_THAT(error.message(), HasSubstr("--trust-index"));
    }
    TensorIndex trusted = read_hdf5_index(path, true);
    EXPECT_EQ(trusted.proof, IndexProof::wrong);
    std::vector<std::string> names;
    for (const TensorMeta& found : trusted.tensors) names.push_back(found.name);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, change.tensors);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// Files of minor version 0 have no checksum of their index.
TEST(Hdf5Sink, AnOlderFileWithoutThatChecksumIsTaken) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex index;
  index.tensors.push_back(tensor("a", DType::f32, {4}));
  std::string path = folder / "out.h5";
  Hdf5Sink sink(path, control, false);
  sink.create(index);
  sink.commit({1});
  folder.on_rank_0([&] {
    hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Adelete_by_name(file, "/__slabload__", "index_crc64", H5P_DEFAULT);
    hid_t group = H5Oopen(file, "/__slabload__", H5P_DEFAULT);
    hid_t attribute = H5Aopen(group, "format_minor", H5P_DEFAULT);
    std::uint64_t zero = 0;
    EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_UINT64, &zero), 0);
    H5Aclose(attribute);
    H5Oclose(group);
    H5Lmove(file, "a", file, "c", H5P_DEFAULT, H5P_DEFAULT);
    return H5Fclose(file);
  });
  TensorIndex found = read_hdf5_index(path);
  EXPECT_EQ(found.proof, IndexProof::none);
  EXPECT_NE(found.find("c"), nullptr);
}

TEST(Hdf5Sink, KeepsTheOldFileUnlessToldOtherwise) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::string path = folder / "out.h5";
  folder.on_rank_0([&] { return slabload::testing::write_one_tensor(path, 10); });
  TensorIndex index;
  index.tensors.push_back(tensor("new", DType::f32, {4}));
  {
    Hdf5Sink sink(path, control, false);
    EXPECT_THAT(sink_error([&] { sink.create(index); }), HasSubstr("exists already"));
  }
  {
    // Given up half way, and without a word.
    Hdf5Sink sink(path, control, true);
    sink.create(index);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(files_in(path), 1u);
  EXPECT_NE(read_hdf5_index(path).find("a"), nullptr);
  MPI_Barrier(MPI_COMM_WORLD);
  Hdf5Sink sink(path, control, true);
  sink.create(index);
  sink.commit({7});
  EXPECT_EQ(files_in(path), 1u);
  EXPECT_EQ(read_hdf5_index(path).find("new")->crc64, 7u);
}

TEST(Hdf5Sink, ATargetThatAppearsMeanwhileIsKept) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::string path = folder / "out.h5";
  TensorIndex index;
  index.tensors.push_back(tensor("new", DType::f32, {4}));
  {
    Hdf5Sink sink(path, control, false);
    sink.create(index);
    folder.on_rank_0([&] { return slabload::testing::write_one_tensor(path, 10); });
    EXPECT_THAT(sink_error([&] { sink.commit({7}); }), HasSubstr("exists already"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(files_in(path), 1u);
  EXPECT_NE(read_hdf5_index(path).find("a"), nullptr);
}

TEST(Hdf5Sink, FailuresAreTheSameOnAllRanks) {
  SharedFolder folder;
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex index;
  index.tensors.push_back(tensor("huge", DType::f32, {1024, 1024, 1024, 1024 * 1024}));
  std::string path = folder / "out.h5";
  {
    Hdf5Sink sink(path, control, false);
    EXPECT_THAT(sink_error([&] { sink.create(index); }), HasSubstr(path));
  }
  index.tensors[0] = tensor("twice", DType::f32, {4});
  index.tensors.push_back(index.tensors[0]);
  {
    Hdf5Sink sink(path, control, false);
    EXPECT_THAT(sink_error([&] { sink.create(index); }), HasSubstr("'twice'"));
  }
  Hdf5Sink nowhere(folder / "none/out.h5", control, false);
  EXPECT_THAT(sink_error([&] { nowhere.create(index); }), HasSubstr("No such file"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(files_in(path), 0u);
}

}  // namespace
}  // namespace slabload
