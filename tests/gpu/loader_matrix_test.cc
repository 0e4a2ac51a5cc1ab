// Loads onto GPUs: every layout, strategy, dtype and cast, compared with a formula and with the host's own
// way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/hdf5/reader.h"
#include "backend/safetensors/storage.h"
#include "gpu/gpu_run.h"
#include "mpi/loader_files.h"
#include "tools/odd_hdf5.h"

namespace slabload {
namespace {

using namespace slabload::testing;  // NOLINT: everything here is a test
using ::testing::IsEmpty;
using Transfer = Hdf5Storage::Transfer;

const char* const kStrategies[] = {"slab", "linear", "auto", "rank0-broadcast", "rank0-full", "every-rank"};

// All dtypes, in shapes that are uneven, empty, scalar, long and narrow.
TensorIndex all_dtypes() {
  TensorIndex table;
  for (DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::i64,
        DType::i32, DType::i16, DType::i8, DType::u64, DType::u32, DType::u16, DType::u8, DType::boolean}) {
    std::string name(dtype_name(dtype));
    table.tensors.push_back(plain_tensor(name + ".matrix", dtype, Shape{37, 11}));
    table.tensors.push_back(plain_tensor(name + ".vector", dtype, Shape{53}));
  }
  table.tensors.push_back(plain_tensor("scalar", DType::f32, Shape{}));
  table.tensors.push_back(plain_tensor("none", DType::bf16, Shape{0, 5}));
  table.tensors.push_back(plain_tensor("deep", DType::bf16, Shape{3, 5, 2, 7}));
  table.tensors.push_back(plain_tensor("long", DType::bf16, Shape{20000}));
  return table;
}

struct NamedLayout {
  std::string name;
  std::vector<std::uint64_t> mesh;
  std::map<std::string, std::vector<int>> dims;  // per tensor and axis
  Layout layout;
};

std::vector<NamedLayout> layouts_for(const TensorIndex& index) {
  const std::uint64_t n = world();
  std::vector<NamedLayout> out;
  auto rows = [](const TensorMeta& t) { return t.shape.ndim() > 0 ? 0 : -1; };
  auto add = [&](const std::string& name, std::vector<MeshAxis> axes, Layout layout, auto&& dims_of_tensor) {
    NamedLayout entry{name, {}, {}, std::move(layout)};
    for (const MeshAxis& axis : axes) entry.mesh.push_back(axis.size);
    for (const TensorMeta& t : index.tensors) entry.dims[t.name] = dims_of_tensor(t);
    out.push_back(std::move(entry));
  };
  std::vector<MeshAxis> line{{"dp_shard", n}};
  add("fsdp2", line, Layout::preset("fsdp2", Mesh(line)),
      [&](const TensorMeta& t) { return std::vector<int>{rows(t)}; });
  add("replicate", line, Layout::preset("replicate", Mesh(line)),
      [](const TensorMeta&) { return std::vector<int>{-1}; });
  if (n % 2 == 0) {
    std::vector<MeshAxis> plane{{"dp_replicate", 2}, {"dp_shard", n / 2}};
    add("hsdp", plane, Layout::preset("hsdp", Mesh(plane)), [&](const TensorMeta& t) {
      return std::vector<int>{-1, rows(t)};
    });
  }
  const char* columns =
      R"j({"rules": [{"match": "*.matrix", "placements": {"dp_shard": "S(1)"}}, {"match": "deep", "placements": {"dp_shard": "S(2)"}}],
                            "default": {"dp_shard": "R"}})j";
  add("columns", line, Layout::from_json(columns, "columns.json", Mesh(line), n), [](const TensorMeta& t) {
    if (t.name == "deep") return std::vector<int>{2};
    return std::vector<int>{t.name.ends_with(".matrix") ? 1 : -1};
  });
  const char* odd =
      R"j({"rules": [{"match": "*.matrix", "placements": {"dp_shard": "SS(1,3)"}}, {"match": "*.vector", "placements": {"dp_shard": "SS(0,2)"}},
                     {"match": "scalar", "placements": {}}, {"match": "*", "placements": {"dp_shard": "F"}}]})j";
  add("strided and flat", line, Layout::from_json(odd, "odd.json", Mesh(line), n), [](const TensorMeta& t) {
    if (t.shape.ndim() == 0) return std::vector<int>{-1};
    if (t.name.ends_with(".matrix")) return std::vector<int>{strided_code(1, 3)};
    return std::vector<int>{t.name.ends_with(".vector") ? strided_code(0, 2) : kFlatCode};
  });
  return out;
}

void expect_right(const TensorIndex& index, const GpuLoaded& loaded, const std::vector<std::uint64_t>& mesh,
                  const std::map<std::string, std::vector<int>>& dims, const std::optional<DType>& cast,
                  const StoredBits& bits = formula(kSeed)) {
  std::vector<std::string> wrong;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    const TensorMeta& tensor = index.tensors[t];
    if (shard_of(loaded, t) !=
        expected_shard(tensor, mesh, dims.at(tensor.name), loaded.plan.rank, cast, bits))
      wrong.push_back(tensor.name);
  }
  EXPECT_THAT(wrong, IsEmpty());
  EXPECT_THAT(loaded.result.wrong, IsEmpty());
}

TEST(GpuLoader, MatrixOfLayoutsStrategiesAndDtypes) {
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, all_dtypes());
  int loads = 0;
  for (const NamedLayout& layout : layouts_for(index)) {
    for (const char* strategy : kStrategies) {
      const std::optional<DType> casts[] = {{}, DType::bf16, DType::f32};
      // Two of the three at a time: every layout and every strategy meets all of them.
      for (int turn = 0; turn < 2; ++turn) {
        const std::optional<DType> cast = casts[(loads / 2 + 2 * turn) % 3];
        SCOPED_TRACE(layout.name + " " + strategy + (cast ? " cast" : ""));
        PlanParams params;
        params.strategy = strategy;
        params.cast = cast;
        params.pinned = true;
        params.min_read = loads % 2 == 0 ? 1 : 1 << 20;
        params.staging = loads % 3 == 0 ? 1 << 20 : 120000;
        params.round_bytes = loads % 4 == 0 ? 3000 : 64 << 20;
        if (loads % 5 == 0) params.slots = 1 + static_cast<std::uint64_t>(loads % 3);
        VerifyMode verify = loads % 2 == 0 ? VerifyMode::shards : VerifyMode::checksum;
        SafetensorsStorage storage(index);
        GpuLoaded on_gpu =
            load_on_gpu(index, layout.layout, params, storage, verify, loads % 2 == 0 ? 4 << 20 : 700);
        expect_right(index, on_gpu, layout.mesh, layout.dims, cast);

        // Bit for bit what the host leaves, padding apart.
        params.pinned = false;
        params.slots = 0;
        SafetensorsStorage again(index);
        Loaded on_host = load(index, layout.layout, params, again, VerifyMode::checksum);
        for (std::size_t t = 0; t < index.tensors.size(); ++t) {
          const ShardPlace& place = on_host.plan.shards[t];
          std::string host(
              reinterpret_cast<const char*>(on_host.result.shards->data()) + (place.bytes ? place.offset : 0),
              place.bytes);
          ASSERT_TRUE(shard_of(on_gpu, t) == host) << index.tensors[t].name;
        }
        ++loads;
      }
    }
  }
  EXPECT_EQ(loads, world() % 2 == 0 ? 60 : 48);
}

TEST(GpuLoader, RandomCasesWithinTheSmallestBudgets) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    RandomCase c = random_case(seed + 9000, {.most_elements = 1500, .ranks = world(), .any_storage = false});
    c.params.pinned = true;
    if (seed % 2 == 0)
      c.params.staging = 1;  // raised to the smallest that works: many rounds, one page a slot
    fit_budget(c);
    SCOPED_TRACE(c.text());
    SharedFolder folder;
    TensorIndex index = write_safetensors(folder, c.index);
    SafetensorsStorage storage(index);
    GpuLoaded loaded =
        load_on_gpu(index, c.layout(), c.params, storage, VerifyMode::shards, seed % 3 == 0 ? 100 : 4 << 20);
    expect_right(index, loaded, c.mesh, dims_by_name(c), c.params.cast);
  }
}

class GpuLoaderHdf5 : public ::testing::TestWithParam<Transfer> {};

TEST_P(GpuLoaderHdf5, ReadsEachWay) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, all_dtypes());
  Hdf5Storage storage(index, GetParam(), MPI_COMM_WORLD);
  for (const NamedLayout& layout : layouts_for(index)) {
    SCOPED_TRACE(layout.name);
    PlanParams params;
    params.pinned = true;
    params.staging = 1 << 20;
    params.min_read = 1000;
    GpuLoaded loaded = load_on_gpu(index, layout.layout, params, storage, VerifyMode::shards);
    expect_right(index, loaded, layout.mesh, layout.dims, {});
    EXPECT_EQ(loaded.result.verified, index.tensors.size());
  }
}
INSTANTIATE_TEST_SUITE_P(All, GpuLoaderHdf5,
                         ::testing::Values(Transfer::independent, Transfer::collective, Transfer::direct),
                         [](const auto& info) {
                           return info.param == Transfer::independent  ? "independent"
                                  : info.param == Transfer::collective ? "collective"
                                                                       : "direct";
                         });

// Chunks, filters, holes, fill values, big-endian data.
TEST(GpuLoader, OddFilesToo) {
  SharedFolder folder;
  if (folder.rank() == 0) write_odd_hdf5(folder / "odd.h5");
  OddFile odd = write_odd_hdf5(folder / ("copy" + std::to_string(folder.rank())));
  TensorIndex index = shared([&] { return read_hdf5_index(folder / "odd.h5"); });
  StoredBits bits = [&](const TensorMeta& tensor, std::uint64_t i) {
    const OddTensor& want = *std::find_if(odd.tensors.begin(), odd.tensors.end(),
                                          [&](const auto& o) { return o.name == tensor.name; });
    std::uint64_t size = dtype_size(tensor.dtype);
    std::uint64_t out = 0;
    for (std::uint64_t b = 0; b < size; ++b)
      out |= std::uint64_t{static_cast<unsigned char>(want.bytes.at(i * size + b))} << (8 * b);
    return out;
  };
  Hdf5Storage storage(index, Transfer::independent, MPI_COMM_WORLD);
  for (const LoadWay& way : kWays) {
    SCOPED_TRACE(way.name);
    PlanParams params;
    params.pinned = true;
    way.set(params);
    params.staging = 4 << 20;
    GpuLoaded loaded = load_on_gpu(index, preset(way.layout), params, storage, VerifyMode::shards);
    expect_right(index, loaded, {world()}, dims_of(index, way.layout), {}, bits);
    // Rows of chunks larger than a slot, as they are and converted: compared with the host's way.
    for (DType to : {DType::f32, DType::bf16}) {
      params.cast = to;
      params.pinned = true;
      params.slot_bytes = 4096;
      params.slots = 16;
      GpuLoaded cast = load_on_gpu(index, preset(way.layout), params, storage, VerifyMode::shards);
      EXPECT_THAT(cast.result.wrong, IsEmpty());
      params.pinned = false;
      params.slots = params.slot_bytes = 0;
      Loaded host = load(index, preset(way.layout), params, storage, VerifyMode::checksum);
      for (std::size_t t = 0; t < index.tensors.size(); ++t) {
        const ShardPlace& place = host.plan.shards[t];
        std::string want(
            reinterpret_cast<const char*>(host.result.shards->data()) + (place.bytes ? place.offset : 0),
            place.bytes);
        EXPECT_TRUE(shard_of(cast, t) == want) << index.tensors[t].name;
      }
    }
  }
}

// A bit that changes after its checksum was taken is found on the GPU, and one that is wrong in the file at
// the reader.
TEST(GpuLoader, NamesDamagedTensors) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  index.tensors[1].crc64 = *index.tensors[1].crc64 ^ 1;
  Hdf5Storage storage(index, Transfer::direct, MPI_COMM_WORLD);
  for (const LoadWay& way : kWays) {
    PlanParams params;
    params.pinned = true;
    way.set(params);
    GpuLoaded loaded = load_on_gpu(index, preset(way.layout), params, storage, VerifyMode::shards);
    ASSERT_EQ(loaded.result.wrong.size(), 1u) << way.name;
    EXPECT_EQ(loaded.result.wrong[0].tensor, 1u);
  }
}

}  // namespace
}  // namespace slabload
