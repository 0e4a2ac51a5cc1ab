// Bits flipped in tensor data, anywhere: every load names the tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "backend/hdf5/reader.h"
#include "mpi/loader_files.h"
#include "mpi/loader_run.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

using slabload::testing::kWays;
using slabload::testing::load;
using slabload::testing::Loaded;
using slabload::testing::LoadWay;
using slabload::testing::plain_tensor;
using slabload::testing::preset;
using slabload::testing::shared;
using slabload::testing::SharedFolder;
using slabload::testing::write_hdf5;
using Transfer = Hdf5Storage::Transfer;

TensorIndex small_table() {
  TensorIndex table;
  table.tensors = {plain_tensor("rows", DType::f32, Shape{40, 30}),
                   plain_tensor("bias", DType::bf16, Shape{7}),
                   plain_tensor("scalar", DType::f64, Shape{}),
                   plain_tensor("flags", DType::boolean, Shape{3, 5}),
                   plain_tensor("group/below", DType::f8_e4m3, Shape{101, 7}),
                   plain_tensor("", DType::i64, Shape{64})};
  return table;
}

// Per number of ranks; two ranks do all that is promised.
int flips() {
  return slabload::testing::world() == 2 ? 1000 : 100;
}

TEST(Flips, OfTensorDataAreNamedEveryTime) {
  SharedFolder folder;
  TensorIndex made = write_hdf5(folder, small_table());
  const std::string path = folder / "a.h5";
  std::mt19937_64 random(20);  // the same on every rank
  int named = 0;
  for (int turn = 0; turn < flips(); ++turn) {
    const std::size_t t = random() % made.tensors.size();
    const std::uint64_t byte = made.tensors[t].offset + random() % made.tensors[t].bytes();
    const char bit = static_cast<char>(1 << random() % 8);
    auto flip = [&] {
      return folder.on_rank_0([&] {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(byte));
        auto value = static_cast<char>(file.get() ^ bit);
        file.seekp(static_cast<std::streamoff>(byte));
        file.put(value);
        return 0;
      });
    };
    flip();
    TensorIndex index = shared([&] { return read_hdf5_index(path); });
    const LoadWay& way = kWays[static_cast<std::size_t>(turn) % std::size(kWays)];
    PlanParams params;
    way.set(params);
    // Opening through MPI-IO takes longer than all the rest.
    Hdf5Storage storage(index, turn % 20 == 0 ? Transfer::independent : Transfer::direct, MPI_COMM_WORLD);
    Loaded loaded = load(index, preset(way.layout), params, storage,
                         turn % 2 == 0 ? VerifyMode::checksum : VerifyMode::shards);
    if (loaded.result.wrong.size() == 1 &&
        index.tensors[loaded.result.wrong[0].tensor].name == made.tensors[t].name) {
      ++named;
    } else {
      ADD_FAILURE() << "byte " << byte << " of '" << made.tensors[t].name
                    << "': " << loaded.result.wrong.size() << " tensors are named";
    }
    flip();
  }
  EXPECT_EQ(named, flips());
}

}  // namespace
}  // namespace slabload
