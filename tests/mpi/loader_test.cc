// Loads through the real parts, at any number of ranks: every element of every shard by a formula of the
// tests' own.
#include "exec/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "backend/hdf5/index.h"
#include "backend/hdf5/reader.h"
#include "backend/safetensors/storage.h"
#include "mpi/loader_files.h"
#include "mpi/loader_run.h"
#include "tools/odd_hdf5.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

using namespace slabload::testing;  // NOLINT: everything here is a test
using ::testing::IsEmpty;
using Transfer = Hdf5Storage::Transfer;

RandomCase case_here(std::uint64_t seed) {
  RandomCase c = random_case(seed, {.most_elements = 2000, .ranks = world(), .any_storage = false});
  if (c.params.staging > 2000 && seed % 2 == 0) c.params.staging = 0;  // the smallest budget: many rounds
  fit_budget(c);
  return c;
}

void expect_right(const RandomCase& c, const TensorIndex& index, const Loaded& loaded) {
  EXPECT_THAT(wrong_shards(index, loaded, c.mesh, dims_by_name(c), c.params.cast, formula(kSeed)), IsEmpty());
  EXPECT_THAT(loaded.result.wrong, IsEmpty());
}

class LoaderHdf5 : public ::testing::TestWithParam<Transfer> {};

TEST_P(LoaderHdf5, EveryElementOfEveryShardIsRight) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomCase c = case_here(seed * 3 + static_cast<std::uint64_t>(GetParam()) + 100);
    SCOPED_TRACE(c.text());
    SharedFolder folder;
    TensorIndex index = write_hdf5(folder, c.index);
    Hdf5Storage storage(index, GetParam(), MPI_COMM_WORLD);
    auto verify = static_cast<VerifyMode>(seed % 3);
    Loaded loaded = load(index, c.layout(), c.params, storage, verify, nullptr, seed % 2 ? 4 << 20 : 100);
    expect_right(c, index, loaded);
    EXPECT_EQ(loaded.result.verified, verify == VerifyMode::none ? 0 : index.tensors.size());
    EXPECT_EQ(loaded.result.unverified, verify == VerifyMode::none ? index.tensors.size() : 0);
    if (verify == VerifyMode::none || folder.rank() != 0) continue;
    for (std::size_t t = 0; t < index.tensors.size(); ++t) {
      const TensorMeta& tensor = index.tensors[t];
      std::string all = formula_bytes(kSeed, tensor.name, tensor.dtype, tensor.elements());
      EXPECT_EQ(loaded.result.crc64[t], plain_crc64(all)) << tensor.name;
    }
  }
}

std::string transfer_name(Transfer transfer) {
  return transfer == Transfer::independent  ? "independent"
         : transfer == Transfer::collective ? "collective"
                                            : "direct";
}
INSTANTIATE_TEST_SUITE_P(All, LoaderHdf5,
                         ::testing::Values(Transfer::independent, Transfer::collective, Transfer::direct),
                         [](const auto& info) { return transfer_name(info.param); });

TEST(LoaderSafetensors, EveryElementOfEveryShardIsRight) {
  for (std::uint64_t seed = 300; seed < 360; ++seed) {
    RandomCase c = case_here(seed);
    SCOPED_TRACE(c.text());
    SharedFolder folder;
    TensorIndex index = write_safetensors(folder, c.index);
    SafetensorsStorage storage(index);
    Loaded loaded = load(index, c.layout(), c.params, storage, static_cast<VerifyMode>(seed % 3), nullptr,
                         seed % 2 ? 4 << 20 : 64);
    expect_right(c, index, loaded);
    EXPECT_EQ(loaded.result.verified, 0u);  // such a file has no checksums
    EXPECT_EQ(loaded.result.unverified, index.tensors.size());
  }
}

TEST(LoaderSafetensors, EveryStrategyGivesTheSame) {
  RandomCase c = case_here(4);
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, c.index);
  for (const char* strategy : {"slab", "linear", "auto", "rank0-broadcast", "rank0-full", "every-rank"}) {
    SCOPED_TRACE(strategy);
    c.params.strategy = strategy;
    c.params.costs = Costs{};  // with a slow fabric `auto` may read more than once
    fit_budget(c);
    SafetensorsStorage storage(index);
    expect_right(c, index, load(index, c.layout(), c.params, storage, VerifyMode::shards));
    std::uint64_t read[] = {storage.counters().bytes};
    mpi::MpiControl control(MPI_COMM_WORLD);
    control.sum(read);
    EXPECT_EQ(read[0], index.total_bytes() * (std::string(strategy) == "every-rank" ? world() : 1));
    if (std::string(strategy).starts_with("rank0") && control.rank() != 0) {
      EXPECT_EQ(storage.counters().bytes, 0u);
    }
  }
}

TEST(Loader, TakesEmptyTensorsAndScalars) {
  TensorIndex table;
  table.tensors = {
      plain_tensor("none", DType::f32, Shape{0}),      plain_tensor("some", DType::bf16, Shape{5, 3}),
      plain_tensor("norows", DType::i64, Shape{0, 7}), plain_tensor("nocolumns", DType::u8, Shape{7, 0}),
      plain_tensor("scalar", DType::f64, Shape{}),     plain_tensor("one", DType::boolean, Shape{1})};
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, table);
  for (Transfer transfer : {Transfer::independent, Transfer::collective, Transfer::direct}) {
    Hdf5Storage storage(index, transfer, MPI_COMM_WORLD);
    for (const LoadWay& way : kWays) {
      PlanParams params;
      way.set(params);
      Loaded loaded = load(index, preset(way.layout), params, storage, VerifyMode::shards);
      EXPECT_THAT(wrong_shards(index, loaded, {world()}, dims_of(index, way.layout), {}, formula(kSeed)),
                  IsEmpty())
          << way.name;
      EXPECT_THAT(loaded.result.wrong, IsEmpty());
      EXPECT_EQ(loaded.result.verified, 6u);
    }
  }
}

TEST(Loader, TakesNothingButEmptyTensors) {
  TensorIndex table;
  table.tensors = {plain_tensor("none", DType::f32, Shape{0, 4})};
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, table);
  SafetensorsStorage storage(index);
  for (const LoadWay& way : kWays) {
    PlanParams params;
    way.set(params);
    Loaded loaded = load(index, preset(way.layout), params, storage, VerifyMode::shards);
    EXPECT_EQ(loaded.plan.shard_bytes, 0u);
    EXPECT_THAT(loaded.result.wrong, IsEmpty());
  }
}

// Every pattern of the small floating types, NaNs and infinities among them.
TEST(Loader, LeavesEveryPatternAsItIs) {
  TensorIndex table;
  table.tensors = {
      plain_tensor("bf16", DType::bf16, Shape{256, 256}), plain_tensor("e4m3", DType::f8_e4m3, Shape{256}),
      plain_tensor("e5m2", DType::f8_e5m2, Shape{16, 16}), plain_tensor("f16", DType::f16, Shape{65536})};
  StoredBits counting = [](const TensorMeta&, std::uint64_t i) { return i; };
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, table, counting);
  for (const LoadWay& way : kWays) {
    SafetensorsStorage storage(index);
    PlanParams params;
    way.set(params);
    Loaded loaded = load(index, preset(way.layout), params, storage, VerifyMode::shards);
    EXPECT_THAT(wrong_shards(index, loaded, {world()}, dims_of(index, way.layout), {}, counting), IsEmpty())
        << way.name;
  }
}

TEST(Loader, CastsEveryPatternByArithmetic) {
  TensorIndex table;
  table.tensors = {
      plain_tensor("bf16", DType::bf16, Shape{256, 256}),  plain_tensor("e4m3", DType::f8_e4m3, Shape{256}),
      plain_tensor("e5m2", DType::f8_e5m2, Shape{16, 16}), plain_tensor("f16", DType::f16, Shape{65536}),
      plain_tensor("f32", DType::f32, Shape{30000}),       plain_tensor("f64", DType::f64, Shape{77, 300}),
      plain_tensor("ids", DType::i32, Shape{1000})};
  // The formula has no NaN; the small types count through all others.
  StoredBits bits = [](const TensorMeta& tensor, std::uint64_t i) {
    if (dtype_size(tensor.dtype) > 2) return formula_bits(kSeed, tensor.name, tensor.dtype, i);
    auto [e, m] = float_bits(tensor.dtype);
    std::uint64_t magnitude = i & ((std::uint64_t{1} << (e + m)) - 1);
    std::uint64_t infinity = ((std::uint64_t{1} << e) - 1) << m;
    bool nan = tensor.dtype == DType::f8_e4m3 ? magnitude == 0x7f : magnitude > infinity;
    return nan ? 0 : i;
  };
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, table, bits);
  for (DType to : {DType::f32, DType::bf16, DType::f16}) {
    for (const LoadWay& way : {kWays[0], kWays[1], kWays[2]}) {
      SafetensorsStorage storage(index);
      PlanParams params;
      way.set(params);
      params.staging = 600000;
      params.cast = to;
      Loaded loaded = load(index, preset(way.layout), params, storage, VerifyMode::shards);
      EXPECT_THAT(wrong_shards(index, loaded, {world()}, dims_of(index, way.layout), to, bits), IsEmpty())
          << way.name << " " << dtype_name(to);
      EXPECT_THAT(loaded.result.wrong, IsEmpty());
    }
  }
}

// Chunks, filters, holes, fill values, compact and big-endian data, links: the same shards whichever way they
// are read.
class LoaderOddFile : public ::testing::TestWithParam<Transfer> {};

TEST_P(LoaderOddFile, GivesTheFilesElements) {
  SharedFolder folder;
  if (folder.rank() == 0) write_odd_hdf5(folder / "odd.h5");
  // The values are known to all, from a copy of their own.
  OddFile odd = write_odd_hdf5(folder / ("copy" + std::to_string(folder.rank())));
  TensorIndex index = shared([&] { return read_hdf5_index(folder / "odd.h5"); });
  std::map<std::string, const OddTensor*> by_name;
  for (const OddTensor& tensor : odd.tensors) by_name[tensor.name] = &tensor;
  ASSERT_EQ(index.tensors.size(), by_name.size());
  StoredBits bits = [&](const TensorMeta& tensor, std::uint64_t i) {
    std::uint64_t size = dtype_size(tensor.dtype);
    std::uint64_t out = 0;
    for (std::uint64_t b = 0; b < size; ++b) {
      out |= std::uint64_t{static_cast<unsigned char>(by_name.at(tensor.name)->bytes.at(i * size + b))}
             << (8 * b);
    }
    return out;
  };
  bool big_endian = false;
  for (const TensorMeta& tensor : index.tensors)
    big_endian |= tensor.big_endian && dtype_size(tensor.dtype) > 1;
  EXPECT_TRUE(big_endian);
  {
    Hdf5Storage storage(index, GetParam(), MPI_COMM_WORLD);
    for (const LoadWay& way : kWays) {
      for (std::uint64_t staging : {std::uint64_t{0}, std::uint64_t{64} << 20}) {
        RandomCase c;
        c.index = index;
        c.preset = way.layout;
        c.axes = {"dp_shard"};
        c.mesh = {world()};
        way.set(c.params);
        c.params.staging = staging;
        fit_budget(c);
        Loaded loaded = load(index, c.layout(), c.params, storage, VerifyMode::shards);
        EXPECT_THAT(wrong_shards(index, loaded, c.mesh, dims_of(index, way.layout), {}, bits), IsEmpty())
            << way.name;
        EXPECT_THAT(loaded.result.wrong, IsEmpty());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LoaderOddFile,
                         ::testing::Values(Transfer::independent, Transfer::collective, Transfer::direct),
                         [](const auto& info) { return transfer_name(info.param); });

TEST(Loader, ConvertsBigEndianBeforeItCasts) {
  SharedFolder folder;
  if (folder.rank() == 0) write_odd_hdf5(folder / "odd.h5");
  OddFile odd = write_odd_hdf5(folder / ("copy" + std::to_string(folder.rank())));
  TensorIndex index = shared([&] { return read_hdf5_index(folder / "odd.h5"); });
  Hdf5Storage storage(index, Transfer::independent, MPI_COMM_WORLD);
  PlanParams params;
  params.cast = DType::f32;
  Loaded loaded = load(index, preset("replicate"), params, storage, VerifyMode::checksum);
  int compared = 0;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    const TensorMeta& tensor = index.tensors[t];
    if (!tensor.big_endian || !is_floating(tensor.dtype)) continue;
    const OddTensor& want = *std::find_if(odd.tensors.begin(), odd.tensors.end(),
                                          [&](const auto& o) { return o.name == tensor.name; });
    std::uint64_t size = dtype_size(tensor.dtype);
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) {
      std::uint64_t bits = 0;
      for (std::uint64_t b = 0; b < size; ++b)
        bits |= std::uint64_t{static_cast<unsigned char>(want.bytes[i * size + b])} << (8 * b);
      float have;
      std::memcpy(&have, loaded.result.shards->data() + loaded.plan.shards[t].offset + 4 * i, 4);
      auto [e, m] = float_bits(tensor.dtype);
      std::uint64_t magnitude = bits & ((std::uint64_t{1} << (e + m)) - 1);
      if (magnitude > ((std::uint64_t{1} << e) - 1) << m) {
        ASSERT_TRUE(std::isnan(have)) << tensor.name << " " << i;
      } else {
        std::uint32_t pattern;
        std::memcpy(&pattern, &have, 4);
        ASSERT_EQ(pattern, float_pattern(DType::f32, float_value(tensor.dtype, bits)))
            << tensor.name << " " << i;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

}  // namespace
}  // namespace slabload
