// Hdf5Storage: every kind of dataset through every mode, on every rank, against the formula that made the
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "backend/hdf5/index.h"
#include "backend/hdf5/reader.h"
#include "tools/odd_hdf5.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

using slabload::testing::odd_bits;
using slabload::testing::OddFile;
using slabload::testing::OddTensor;
using slabload::testing::SharedFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Transfer = Hdf5Storage::Transfer;

// The bytes of a box, picked element by element, in the file's byte order.
std::string bytes_of_box(const OddTensor& tensor, const Box& box) {
  std::uint64_t size = dtype_size(tensor.dtype);
  std::uint64_t count = 1;
  for (std::uint64_t e : box.extent) count *= e;
  std::string out;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t rest = i;
    std::uint64_t flat = 0;
    std::uint64_t stride = 1;
    for (std::size_t d = box.extent.size(); d-- > 0;) {
      flat += (box.start[d] + rest % box.extent[d]) * stride;
      rest /= box.extent[d];
      stride *= tensor.shape[d];
    }
    std::string element = tensor.bytes.substr(flat * size, size);
    if (tensor.big_endian) std::reverse(element.begin(), element.end());
    out += element;
  }
  return out;
}

// The whole tensor; and for 2-d and more a part that starts and ends inside, across chunks.
std::vector<Box> boxes_for(const OddTensor& tensor) {
  Box whole;
  Box inner;
  for (std::uint64_t length : tensor.shape) {
    whole.start.push_back(0);
    whole.extent.push_back(length);
    inner.start.push_back(length > 2 ? 1 : 0);
    inner.extent.push_back(length > 2 ? length - 2 : length);
  }
  return {whole, inner};
}

TensorMeta meta_of(const TensorIndex& index, const std::string& name) {
  const TensorMeta* found = index.find(name);
  if (found == nullptr) throw std::logic_error(name);
  return *found;
}

// The same file is made on rank 0 only; the values are known to all, from a copy of their own.
OddFile make_file(SharedFolder& folder, std::uint64_t user_block = 0) {
  if (folder.rank() == 0) slabload::testing::write_odd_hdf5(folder / "odd.h5", user_block);
  OddFile odd =
      slabload::testing::write_odd_hdf5(folder / ("copy" + std::to_string(folder.rank())), user_block);
  MPI_Barrier(MPI_COMM_WORLD);
  return odd;
}

void read_all(Storage& storage, const TensorIndex& index, const OddFile& odd) {
  for (const OddTensor& want : odd.tensors) {
    if (want.bytes.empty()) continue;
    TensorMeta meta = meta_of(index, want.name);
    for (const Box& box : boxes_for(want)) {
      std::string got(box.elements() * dtype_size(want.dtype), '\x55');
      if (storage.collective(meta)) {
        storage.read_collective(meta, &box, got.data());
      } else {
        storage.read(meta, box, got.data());
      }
      EXPECT_EQ(got, bytes_of_box(want, box))
          << want.name << " " << box.text() << " " << storage.description();
    }
  }
}

class Hdf5StorageModes : public ::testing::TestWithParam<Transfer> {};

TEST_P(Hdf5StorageModes, ReadsEveryKindOfDataset) {
  for (std::uint64_t user_block : {0, 4096}) {
    SharedFolder folder;
    OddFile odd = make_file(folder, user_block);
    TensorIndex index = read_hdf5_index(folder / "odd.h5");
    {
      Hdf5Storage storage(index, GetParam(), MPI_COMM_WORLD);
      storage.check_unchanged();
      read_all(storage, index, odd);
      storage.check_unchanged();
      EXPECT_GT(storage.counters().bytes, 0u);
    }
    EXPECT_EQ(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  }
}

TEST_P(Hdf5StorageModes, NoticesAFileCutShortAfterOpening) {
  SharedFolder folder;
  std::string path = folder / "a.h5";
  folder.on_rank_0([&] { return slabload::testing::write_one_tensor(path, 100000); });
  TensorIndex index = read_hdf5_index(path);
  MPI_Barrier(MPI_COMM_WORLD);
  Hdf5Storage storage(index, GetParam(), MPI_COMM_WORLD);
  storage.check_unchanged();
  MPI_Barrier(MPI_COMM_WORLD);
  if (folder.rank() == 0) std::filesystem::resize_file(path, index.files[0].size / 2);
  MPI_Barrier(MPI_COMM_WORLD);
  try {
    storage.check_unchanged();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_THAT(error.message(), HasSubstr("cut short"));
    EXPECT_THAT(error.message(), HasSubstr(path));
  }
}

TEST_P(Hdf5StorageModes, RefusesAnotherFileUnderTheSameName) {
  SharedFolder folder;
  std::string path = folder / "a.h5";
  folder.on_rank_0([&] { return slabload::testing::write_one_tensor(path, 10); });
  TensorIndex index = read_hdf5_index(path);
  index.files[0].inode += 1;
  try {
    Hdf5Storage storage(index, GetParam(), MPI_COMM_WORLD);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_TRUE(error.agreed());
    EXPECT_THAT(error.message(), HasSubstr("another file"));
  }
}

TEST_P(Hdf5StorageModes, RefusesBoxesThatAreNotWithinTheTensor) {
  SharedFolder folder;
  std::string path = folder / "a.h5";
  folder.on_rank_0([&] { return slabload::testing::write_one_tensor(path, 10); });
  TensorIndex index = read_hdf5_index(path);
  Hdf5Storage storage(index, GetParam(), MPI_COMM_WORLD);
  const TensorMeta& a = index.tensors[0];
  float out[16];
  for (const Box& box :
       {Box{Dims{0}, Dims{11}}, Box{Dims{UINT64_MAX}, Dims{2}}, Box{Dims{3}, Dims{0}}, Box{}}) {
    try {
      storage.read(a, box, out);
      ADD_FAILURE() << box.text();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::internal);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5StorageModes,
                         ::testing::Values(Transfer::independent, Transfer::collective, Transfer::direct),
                         [](const auto& info) {
                           switch (info.param) {
                             case Transfer::independent:
                               return "independent";
                             case Transfer::collective:
                               return "collective";
                             default:
                               return "direct";
                           }
                         });

TEST(Hdf5Storage, ReadsAloneWithoutMpi) {
  SharedFolder folder;
  OddFile odd = make_file(folder);
  TensorIndex index = read_hdf5_index(folder / "odd.h5");
  Hdf5Storage storage(index);
  read_all(storage, index, odd);
  EXPECT_EQ(storage.description(), "serial");
}

TEST(Hdf5Storage, ARankWithNothingToReadTakesPart) {
  SharedFolder folder;
  OddFile odd = make_file(folder);
  TensorIndex index = read_hdf5_index(folder / "odd.h5");
  Hdf5Storage storage(index, Transfer::collective, MPI_COMM_WORLD);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const char* name : {"types/f32", "types/f64", "storage/scalar"}) {
    TensorMeta meta = meta_of(index, name);
    auto want =
        std::find_if(odd.tensors.begin(), odd.tensors.end(), [&](const auto& t) { return t.name == name; });
    ASSERT_TRUE(storage.collective(meta)) << name;
    for (int reader = 0; reader < ranks; ++reader) {
      Box box = whole_box(meta.shape);
      std::string got(meta.bytes(), '\x55');
      storage.read_collective(meta, reader == folder.rank() ? &box : nullptr, got.data());
      EXPECT_EQ(got, reader == folder.rank() ? want->bytes : std::string(meta.bytes(), '\x55')) << name;
    }
  }
  EXPECT_THAT(storage.description(), HasSubstr("collective"));
}

TEST(Hdf5Storage, CountsWhatItAsksFor) {
  SharedFolder folder;
  make_file(folder);
  TensorIndex index = read_hdf5_index(folder / "odd.h5");
  Hdf5Storage storage(index, Transfer::direct, MPI_COMM_WORLD);
  char out[4096];
  // Columns 1 and 2 of 3 rows of float64: three runs of 16 bytes.
  storage.read(meta_of(index, "types/f64"), Box{Dims{0, 1}, Dims{3, 2}}, out);
  EXPECT_EQ(storage.counters().bytes, 48u);
  EXPECT_EQ(storage.counters().requests, 3u);
  EXPECT_EQ(storage.datasets_opened(), 0u);
  // One chunk of the 5 x 3 chunks of a compressed tensor.
  TensorMeta gzip = meta_of(index, "storage/gzip");
  storage.read(gzip, Box{Dims{0, 0}, Dims{8, 7}}, out);
  EXPECT_EQ(storage.counters().bytes, 48u + gzip.stored_bytes / 15);
  EXPECT_EQ(storage.datasets_opened(), 1u);
  // What was never written is not read.
  storage.read(meta_of(index, "storage/unwritten"), Box{Dims{0, 0}, Dims{3, 7}}, out);
  EXPECT_EQ(storage.counters().requests, 4u);
}

TEST(Hdf5Storage, NamesTheMpiIoThatReads) {
  SharedFolder folder;
  std::string path = folder / "a.h5";
  folder.on_rank_0([&] { return slabload::testing::write_one_tensor(path, 10); });
  Hdf5Storage storage(read_hdf5_index(path), Transfer::independent, MPI_COMM_WORLD,
                      {{"romio_ds_read", "disable"}});
  const char* variable = std::getenv("OMPI_MCA_io");
  std::string chosen = variable == nullptr ? "" : variable;
  std::string want = chosen == "ompio"               ? "OMPIO"
                     : chosen.rfind("romio", 0) == 0 ? "ROMIO " + chosen.substr(5)
                                                     : "IO";
  EXPECT_THAT(storage.description(), AllOf(HasSubstr("independent, "), HasSubstr(want)));
}

}  // namespace
}  // namespace slabload
