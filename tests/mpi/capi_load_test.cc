// Loads through the C interface and the C++ layer over it: values that equal the formula, and errors that all
// ranks share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <fstream>
#include <numeric>
#include <slabload/slabload.hpp>

#include "backend/hdf5/sink.h"
#include "backend/mpi/control.h"
#include "exec/generator.h"
#include "fakes/reference.h"
#include "index/table.h"
#include "mpi/capi_use.h"
#include "tools/shared_folder.h"

namespace {

namespace api = slabload_api;
using slabload::DType;
using slabload::testing::formula_bits;
using slabload::testing::formula_bytes;
using slabload::testing::reference_elements;
using slabload::testing::reference_indices;
using slabload::testing::SharedFolder;
using ::testing::HasSubstr;

constexpr std::uint64_t kSeed = 11;

struct Want {
  const char* name;
  DType dtype;
  std::vector<std::uint64_t> shape;
};
// Uneven, short, two- and three-dimensional, 0-d, empty; one large enough for several parts on each rank.
const std::vector<Want>& wanted() {
  static const std::vector<Want> list{{"embed.weight", DType::bf16, {1003, 64}},
                                      {"h.0.weight", DType::f32, {67, 129}},
                                      {"h.0.bias", DType::f32, {2}},
                                      {"h.0.conv", DType::f16, {5, 6, 7}},
                                      {"h.0.mask", DType::boolean, {19, 3}},
                                      {"step", DType::i64, {}},
                                      {"none", DType::u8, {0, 4}},
                                      {"big.weight", DType::bf16, {1201, 700}}};
  return list;
}

std::uint64_t elements(const std::vector<std::uint64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

int world() {
  return static_cast<int>(MPI_Comm_c2f(MPI_COMM_WORLD));
}

std::pair<int, int> rank_and_size(MPI_Comm comm = MPI_COMM_WORLD) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  return {rank, size};
}

// Writes the checkpoint of wanted(). Collective.
std::string make_checkpoint(const SharedFolder& folder) {
  std::string table;
  for (const Want& want : wanted()) {
    std::string shape;
    for (std::uint64_t n : want.shape) shape += (shape.empty() ? "" : ",") + std::to_string(n);
    table +=
        std::string(want.name) + "\t" + std::string(slabload::dtype_name(want.dtype)) + "\t" + shape + "\n";
  }
  slabload::mpi::MpiControl control(MPI_COMM_WORLD);
  slabload::Hdf5Sink sink(folder / "model.h5", control, false);
  slabload::generate(sink, control, slabload::parse_table(table, "t"), kSeed);
  return folder / "model.h5";
}

std::string bytes_of(const slabload_shard& shard) {
  return shard.bytes == 0 ? "" : std::string(static_cast<const char*>(shard.data), shard.bytes);
}

// Compares every shard with the formula on the indices that chunking gives. `dims` says per tensor which
// dimension each mesh axis shards.
template <typename Dims>
void expect_formula(const api::Shards& shards, const std::vector<std::uint64_t>& mesh, int rank,
                    Dims&& dims) {
  ASSERT_EQ(shards.size(), wanted().size());
  for (const Want& want : wanted()) {
    SCOPED_TRACE(want.name);
    slabload_shard shard = shards[want.name];
    EXPECT_STREQ(shard.name, want.name);
    EXPECT_EQ(shard.dtype, slabload::dtype_name(want.dtype));
    EXPECT_EQ(std::vector<std::uint64_t>(shard.global_shape, shard.global_shape + shard.ndim), want.shape);
    auto lists = reference_indices(want.shape, mesh, dims(want), static_cast<std::uint64_t>(rank));
    for (std::size_t d = 0; d < lists.size(); ++d) {
      EXPECT_EQ(shard.shape[d], lists[d].size());
      EXPECT_EQ(shard.offset[d], lists[d].empty() ? want.shape[d] : lists[d].front());
    }
    std::string expected;
    for (std::uint64_t i : reference_elements(want.shape, lists)) {
      slabload::testing::append_bits(expected, formula_bits(kSeed, want.name, want.dtype, i),
                                     shard.element_bytes);
    }
    EXPECT_EQ(shard.bytes, expected.size());
    EXPECT_TRUE(bytes_of(shard) == expected) << "values differ";
    EXPECT_EQ(shard.data == nullptr, expected.empty());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shard.data) % 64, 0u);
  }
}

// On the first axis of `axes` that is the sharding one, dimension 0; nothing for 0-d tensors.
auto first_dimension(std::size_t axes, std::size_t axis) {
  return [axes, axis](const Want& want) {
    std::vector<int> dims(axes, -1);
    if (!want.shape.empty()) dims[axis] = 0;
    return dims;
  };
}

template <typename Call>
api::Error thrown(Call&& call) {
  try {
    call();
  } catch (const api::Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {SLABLOAD_OK, "", false};
}

TEST(CapiLoad, SaysWhereTheBytesLie) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  api::Index index = api::Index::open(path);
  ASSERT_EQ(index.size(), wanted().size());
  EXPECT_STREQ(index.info().format, "hdf5");
  std::ifstream file(path, std::ios::binary);
  for (const Want& want : wanted()) {
    SCOPED_TRACE(want.name);
    slabload_tensor tensor = index[index.find(want.name)];
    EXPECT_EQ(tensor.file, path);
    EXPECT_EQ(tensor.has_crc64, 1);
    std::string expected = formula_bytes(kSeed, want.name, want.dtype, elements(want.shape));
    EXPECT_EQ(tensor.bytes, expected.size());
    if (expected.empty()) continue;
    ASSERT_EQ(tensor.is_contiguous, 1);
    std::string found(expected.size(), '\0');
    file.seekg(static_cast<std::streamoff>(tensor.offset));
    file.read(found.data(), static_cast<std::streamsize>(found.size()));
    EXPECT_TRUE(found == expected);
  }
}

TEST(CapiLoad, LoadsWhatTheFormulaSays) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  auto [rank, ranks] = rank_and_size();
  auto n = static_cast<std::uint64_t>(ranks);
  for (const api::Options& options :
       {api::Options{}, api::Options{{"strategy", "rank0-broadcast"}, {"io", "direct"}},
        api::Options{
            {"staging", "1MiB"}, {"min-read", "4KiB"}, {"verify", "shards"}, {"io", "collective"}}}) {
    api::Shards shards = api::Shards::load(world(), path, options);
    expect_formula(shards, {n}, rank, first_dimension(1, 0));
    slabload_shards_info info = shards.info();
    EXPECT_EQ(info.rank, static_cast<std::uint64_t>(rank));
    EXPECT_EQ(info.ranks, n);
    EXPECT_EQ(info.mesh, "dp_shard=" + std::to_string(ranks));
    EXPECT_STREQ(info.layout, "fsdp2");
    EXPECT_STREQ(info.strategy, options.size() == 2 ? "rank0-broadcast" : "auto");
    EXPECT_EQ(info.verified, wanted().size());
    EXPECT_EQ(info.unverified, 0u);
    EXPECT_EQ(info.report != nullptr, rank == 0);
    if (rank == 0) {
      EXPECT_THAT(info.report, HasSubstr("\"read_amplification\""));
    }
  }
  api::Shards replicas = api::Shards::load(
      world(), path, {{"layout", "hsdp"}, {"mesh", "dp_replicate=" + std::to_string(n) + ",dp_shard=1"}});
  expect_formula(replicas, {n, 1}, rank, first_dimension(2, 1));
}

TEST(CapiLoad, LoadsColumnsByARulesFile) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  folder.on_rank_0([&] {
    std::ofstream(folder / "rules.json")
        << R"-({"rules": [{"match": "*.weight", "placements": {"tp": "S(1)"}}], "default": {}})-";
    return 0;
  });
  auto [rank, ranks] = rank_and_size();
  auto n = static_cast<std::uint64_t>(ranks);
  api::Shards shards = api::Shards::load(
      world(), path, {{"layout", folder / "rules.json"}, {"mesh", "tp=" + std::to_string(ranks)}});
  expect_formula(shards, {n}, rank, [](const Want& want) {
    return std::vector<int>{std::string(want.name).ends_with(".weight") ? 1 : -1};
  });
}

// A flat shard is several boxes of its tensor, each of them dense in the data.
TEST(CapiLoad, TellsTheBoxesOfFlatShards) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  auto [rank, ranks] = rank_and_size();
  api::Shards shards = api::Shards::load(world(), path, {{"layout", "zero3"}});
  for (const Want& want : wanted()) {
    SCOPED_TRACE(want.name);
    slabload_shard shard = shards[want.name];
    const std::vector<int> dims{want.shape.empty() ? -1 : slabload::testing::kFlatCode};
    const std::vector<std::uint64_t> held = slabload::testing::reference_held(
        want.shape, {static_cast<std::uint64_t>(ranks)}, dims, static_cast<std::uint64_t>(rank));
    std::string expected;
    for (std::uint64_t i : held)
      slabload::testing::append_bits(expected, formula_bits(kSeed, want.name, want.dtype, i), shard.element_bytes);
    EXPECT_TRUE(bytes_of(shard) == expected) << "values differ";
    // The boxes, one after the other, are the elements held.
    std::vector<std::uint64_t> listed;
    for (std::uint64_t part = 0; part < shard.parts; ++part) {
      auto [box, element] = shards.part(shards.find(want.name), part);
      EXPECT_EQ(element, listed.size());
      ASSERT_EQ(box.ndim, want.shape.size());
      std::vector<std::vector<std::uint64_t>> lists(box.ndim);
      for (std::uint32_t d = 0; d < box.ndim; ++d) {
        for (std::uint64_t i = 0; i < box.extent[d]; ++i) lists[d].push_back(box.start[d] + i);
      }
      for (std::uint64_t i : reference_elements(want.shape, lists)) listed.push_back(i);
    }
    EXPECT_EQ(listed, held);
    EXPECT_EQ(shard.shape == nullptr, shard.parts > 1);
    slabload_box box;
    std::uint64_t element = 0;
    EXPECT_EQ(slabload_shards_get_part(shards.get(), shards.find(want.name), shard.parts, &box, &element, nullptr),
              SLABLOAD_USAGE);
  }
}

TEST(CapiLoad, SelectsAndCasts) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  api::Shards shards = api::Shards::load(world(), path,
                                         {{"select", "embed*"},
                                          {"select", "step"},
                                          {"exclude", "h.*"},
                                          {"cast", "fp32"},
                                          {"layout", "replicate"}});
  ASSERT_EQ(shards.size(), 2u);
  slabload_shard embed = shards["embed.weight"];
  EXPECT_STREQ(embed.dtype, "f32");
  ASSERT_EQ(embed.bytes, 4u * 1003 * 64);
  const auto* values = static_cast<const std::uint32_t*>(embed.data);
  for (std::uint64_t i = 0; i < 1003 * 64; ++i) {
    // bf16 is the upper half of a float.
    ASSERT_EQ(values[i], formula_bits(kSeed, "embed.weight", DType::bf16, i) << 16) << i;
  }
  EXPECT_STREQ(shards["step"].dtype, "i64");
  EXPECT_THAT(thrown([&] { shards["h.0.bias"]; }).what(), HasSubstr("h.0.bias"));
}

TEST(CapiLoad, LoadsOnPartOfTheJob) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, rank_and_size().first % 2, -rank_and_size().first, &part);
  auto [rank, ranks] = rank_and_size(part);
  // Two loads at once, each among its own ranks, and the shards outlive the communicator.
  api::Shards shards = api::Shards::load(static_cast<int>(MPI_Comm_c2f(part)), path);
  MPI_Comm_free(&part);
  EXPECT_EQ(shards.info().ranks, static_cast<std::uint64_t>(ranks));
  expect_formula(shards, {static_cast<std::uint64_t>(ranks)}, rank, first_dimension(1, 0));
}

TEST(CapiLoad, StagesOutAndReports) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  auto [rank, ranks] = rank_and_size();
  api::Shards shards =
      api::Shards::load(world(), path, {{"stage-out", folder / "out"}, {"report", folder / "r.json"}});
  api::Index staged = api::Index::open(folder / ("out/rank-0000" + std::to_string(rank) + ".safetensors"));
  EXPECT_EQ(staged.size(), wanted().size());
  std::ifstream report(folder / "r.json");
  std::string text{std::istreambuf_iterator<char>(report), {}};
  EXPECT_THAT(text, HasSubstr("\"ranks\": " + std::to_string(ranks)));
  if (rank == 0) {
    EXPECT_EQ(text, shards.info().report);
  }
}

TEST(CapiLoad, LeavesTheCallersCommunicatorAsItWas) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  api::Shards::load(static_cast<int>(MPI_Comm_c2f(comm)), path);
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(comm, &handler);
  EXPECT_TRUE(handler == MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
}

TEST(CapiLoad, ServesC) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  auto [rank, ranks] = rank_and_size();
  std::uint64_t sum = 0;
  char why[512] = {};
  int failed = capi_use(world(), static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(ranks),
                        path.c_str(), &sum, why, sizeof why);
  ASSERT_EQ(failed, 0) << why;
  std::uint64_t expected = 0;
  for (const Want& want : wanted()) {
    auto lists = reference_indices(want.shape, {static_cast<std::uint64_t>(ranks)},
                                   first_dimension(1, 0)(want), static_cast<std::uint64_t>(rank));
    for (std::uint64_t i : reference_elements(want.shape, lists)) {
      std::uint64_t bits = formula_bits(kSeed, want.name, want.dtype, i);
      for (; bits != 0; bits >>= 8) expected += bits & 0xff;
    }
  }
  EXPECT_EQ(sum, expected);
}

TEST(CapiLoad, AMissingFileIsEveryRanksError) {
  api::Error load = thrown([] { api::Shards::load(world(), "/nonexistent/m.h5"); });
  EXPECT_EQ(load.status(), SLABLOAD_FILE);
  EXPECT_TRUE(load.agreed());
}

TEST(CapiLoad, RefusesCommunicatorsThatAreNone) {
  for (int handle : {static_cast<int>(MPI_Comm_c2f(MPI_COMM_NULL)), 987654, -5}) {
    api::Error error = thrown([&] { api::Shards::load(handle, "m.h5"); });
    EXPECT_EQ(error.status(), SLABLOAD_USAGE);
    EXPECT_THAT(error.what(), HasSubstr("intra-communicator"));
  }
}

// A load's wrong argument on one rank, the last, is every rank's error.
TEST(CapiLoad, OneRanksWrongArgumentIsEveryRanks) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  auto [rank, ranks] = rank_and_size();
  bool culprit = rank == ranks - 1;
  auto expect = [&](const char* checkpoint, std::vector<slabload_option> options, std::uint64_t count,
                    bool take, const char* words) {
    slabload_shards* shards = reinterpret_cast<slabload_shards*>(&rank);
    slabload_error* error = nullptr;
    slabload_status status =
        slabload_load(world(), culprit ? checkpoint : path.c_str(), culprit ? options.data() : nullptr,
                      culprit ? count : 0, culprit && !take ? nullptr : &shards, &error);
    EXPECT_EQ(status, SLABLOAD_USAGE) << words;
    EXPECT_THAT(slabload_error_message(error), HasSubstr(words));
    EXPECT_EQ(slabload_error_agreed(error), 1);
    EXPECT_TRUE(shards == nullptr || (culprit && !take));
    slabload_error_free(error);
  };
  expect(nullptr, {}, 0, true, "`checkpoint`");
  expect(path.c_str(), {}, 0, false, "`shards`");
  expect(path.c_str(), {}, 1, true, "`options`");
  expect(path.c_str(), {{nullptr, "x"}}, 1, true, "`options[].name`");
  expect(path.c_str(), {{"layout", nullptr}}, 1, true, "`options[].value`");
  expect(path.c_str(), {{"colour", "red"}}, 1, true, "'colour'");
  expect(path.c_str(), {{"repeat", "3"}}, 1, true, "'repeat'");  // of another verb
  expect(path.c_str(), {{"config", "x.ini"}}, 1, true, "'config'");
  expect(path.c_str(), {{"staging", "much"}}, 1, true, "--staging");
  expect(path.c_str(), {{"io", "direct"}, {"io", "direct"}}, 2, true, "given twice");
}

TEST(CapiLoad, TellsWrongDataAndGivesNoShards) {
  SharedFolder folder;
  std::string path = make_checkpoint(folder);
  folder.on_rank_0([&] {
    api::Index index = api::Index::open(path);
    slabload_tensor tensor = index[index.find("h.0.weight")];
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    auto at = static_cast<std::streamoff>(tensor.offset + tensor.bytes / 2);
    file.seekg(at);
    int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 0x10));
    return 0;
  });
  slabload_shards* shards = nullptr;
  slabload_error* error = nullptr;
  EXPECT_EQ(slabload_load(world(), path.c_str(), nullptr, 0, &shards, &error), SLABLOAD_WRONG_DATA);
  EXPECT_THAT(slabload_error_message(error), HasSubstr("1 of 8 tensors are wrong: tensor h.0.weight"));
  EXPECT_EQ(slabload_error_agreed(error), 1);
  EXPECT_EQ(shards, nullptr);
  // The next call takes the error away.
  const slabload_option unchecked{"verify", "none"};
  EXPECT_EQ(slabload_load(world(), path.c_str(), &unchecked, 1, &shards, &error), SLABLOAD_OK);
  EXPECT_EQ(error, nullptr);
  slabload_shards_free(shards);
}

// What was loaded by one layout, saved from where it lies: the file is the checkpoint again.
TEST(CApiSave, ShardsInMemoryBecomeACheckpoint) {
  SharedFolder folder;
  const std::string path = make_checkpoint(folder);
  const auto [rank, size] = rank_and_size();
  for (const char* layout : {"fsdp2", "replicate", "zero3"}) {
    SCOPED_TRACE(layout);
    const slabload_option options[] = {{"layout", layout}, {"force", "true"}};
    slabload_shards* shards = nullptr;
    slabload_error* error = nullptr;
    ASSERT_EQ(slabload_load(world(), path.c_str(), options, 1, &shards, &error), SLABLOAD_OK)
        << slabload_error_message(error);
    std::vector<slabload_state> state;
    for (std::uint64_t t = 0; t < wanted().size(); ++t) {
      slabload_shard shard;
      ASSERT_EQ(slabload_shards_get(shards, t, &shard, &error), SLABLOAD_OK);
      state.push_back({shard.name, shard.dtype, shard.ndim, shard.global_shape, shard.data, shard.bytes});
    }
    const std::string out = folder / "saved.h5";
    ASSERT_EQ(slabload_save(world(), out.c_str(), state.data(), state.size(), options, 2, &error), SLABLOAD_OK)
        << slabload_error_message(error);
    slabload_shards* again = nullptr;
    const slabload_option whole[] = {{"layout", "replicate"}};
    ASSERT_EQ(slabload_load(world(), out.c_str(), whole, 1, &again, &error), SLABLOAD_OK)
        << slabload_error_message(error);
    for (const Want& want : wanted()) {
      std::uint64_t number = 0;
      slabload_shard shard;
      ASSERT_EQ(slabload_shards_find(again, want.name, &number, &error), SLABLOAD_OK);
      ASSERT_EQ(slabload_shards_get(again, number, &shard, &error), SLABLOAD_OK);
      std::string expected = formula_bytes(kSeed, want.name, want.dtype, elements(want.shape));
      EXPECT_EQ(bytes_of(shard), expected) << want.name;
    }
    // One rank's wrong part is everyone's error, and the file stays.
    if (rank == size - 1) state.back().bytes += 1;
    EXPECT_EQ(slabload_save(world(), out.c_str(), state.data(), state.size(), options, 2, &error), SLABLOAD_USAGE);
    EXPECT_EQ(slabload_error_agreed(error), 1);
    EXPECT_THAT(slabload_error_message(error), HasSubstr("this rank's part by the layout has"));
    if (rank == size - 1) state.back().bytes -= 1;
    // One that asks for something else than the others, likewise: their plans would not fit together.
    if (size > 1) {
      for (const char* name : {"staging", "min-read", "chunk"}) {
        const slabload_option different[] = {
            {"layout", layout}, {"force", "true"}, {name, rank == 1 ? "64MiB" : "32MiB"}};
        EXPECT_EQ(slabload_save(world(), out.c_str(), state.data(), state.size(), different, 3, &error), SLABLOAD_PEER);
        EXPECT_EQ(slabload_error_agreed(error), 1);
        EXPECT_THAT(slabload_error_message(error), HasSubstr("do not agree"));
      }
      std::vector<slabload_state> renamed = state;
      if (rank == 0) std::swap(renamed[0], renamed[1]);
      EXPECT_EQ(slabload_save(world(), out.c_str(), renamed.data(), renamed.size(), options, 2, &error), SLABLOAD_PEER);
    }
    slabload_error_free(error);
    slabload_shards_free(again);
    slabload_shards_free(shards);
  }
}

}  // namespace
