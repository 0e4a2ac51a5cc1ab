// Loads through the real parts, at any number of ranks: every element of every shard by a formula of the
// tests' own.
#include "exec/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <fstream>
#include <set>

#include "backend/hdf5/index.h"
#include "backend/hdf5/reader.h"
#include "backend/hdf5/sink.h"
#include "backend/safetensors/index.h"
#include "backend/safetensors/storage.h"
#include "exec/generator.h"
#include "fakes/safetensors_bytes.h"
#include "mpi/loader_run.h"
#include "tools/odd_hdf5.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

using namespace slabload::testing;  // NOLINT: everything here is a test
using ::testing::IsEmpty;
using Transfer = Hdf5Storage::Transfer;

constexpr std::uint64_t kSeed = 4711;

std::uint64_t world() {
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return static_cast<std::uint64_t>(size);
}

// The index as rank 0 reads it, on every rank.
template <typename Read>
TensorIndex shared(Read&& read) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::string bytes;
  if (control.rank() == 0) bytes = to_bytes(read());
  return index_from_bytes(control.broadcast(std::move(bytes), 0));
}

TensorIndex write_hdf5(const SharedFolder& folder, const TensorIndex& table) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Sink sink(folder / "a.h5", control, true);
  generate(sink, control, table, kSeed);
  return shared([&] { return read_hdf5_index(folder / "a.h5"); });
}

TensorIndex write_safetensors(SharedFolder& folder, const TensorIndex& table,
                              const StoredBits& bits = formula(kSeed)) {
  folder.on_rank_0([&] {
    std::string json, data;
    for (const TensorMeta& tensor : table.tensors) {
      std::string shape;
      for (std::uint64_t length : tensor.shape.lengths())
        shape += fmt::format("{}{}", shape.empty() ? "" : ",", length);
      std::size_t begin = data.size();
      for (std::uint64_t i = 0; i < tensor.elements(); ++i)
        append_bits(data, bits(tensor, i), dtype_size(tensor.dtype));
      json += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          json.empty() ? "{" : ",", tensor.name, safetensors_name(tensor.dtype), shape, begin,
                          data.size());
    }
    std::ofstream(folder / "a.safetensors", std::ios::binary) << safetensors_bytes(json + "}", data);
    return 0;
  });
  return shared([&] { return read_safetensors_index(folder / "a.safetensors"); });
}

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
  for (const char* strategy : {"slab", "rank0-broadcast", "rank0-full", "every-rank"}) {
    SCOPED_TRACE(strategy);
    c.params.strategy = strategy;
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

TensorMeta plain_tensor(const std::string& name, DType dtype, Shape shape) {
  TensorMeta tensor;
  tensor.name = tensor.path = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

Layout preset(const char* name) {
  return Layout::preset(name, Mesh({{"dp_shard", world()}}));
}

// The way each of these goes through the loader.
struct Way {
  const char* name;
  const char* layout;
  std::uint64_t min_read;
};
const Way kWays[] = {{"each its own", "fsdp2", 1},
                     {"all-gathers", "replicate", 1},
                     {"exchange", "fsdp2", 1 << 20},
                     {"exchange of replicas", "replicate", 1 << 20}};

std::map<std::string, std::vector<int>> dims_of(const TensorIndex& index, const std::string& layout) {
  std::map<std::string, std::vector<int>> out;
  for (const TensorMeta& tensor : index.tensors)
    out[tensor.name] = {layout == "fsdp2" && tensor.shape.ndim() > 0 ? 0 : -1};
  return out;
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
    for (const Way& way : kWays) {
      PlanParams params;
      params.min_read = way.min_read;
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
  for (const Way& way : kWays) {
    PlanParams params;
    params.min_read = way.min_read;
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
  for (const Way& way : kWays) {
    SafetensorsStorage storage(index);
    PlanParams params;
    params.min_read = way.min_read;
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
    for (const Way& way : {kWays[0], kWays[1], kWays[2]}) {
      SafetensorsStorage storage(index);
      PlanParams params;
      params.min_read = way.min_read;
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
    for (const Way& way : kWays) {
      for (std::uint64_t staging : {std::uint64_t{0}, std::uint64_t{64} << 20}) {
        RandomCase c;
        c.index = index;
        c.preset = way.layout;
        c.axes = {"dp_shard"};
        c.mesh = {world()};
        c.params.min_read = way.min_read;
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

// A checkpoint to be damaged.
TensorIndex three_tensors() {
  TensorIndex table;
  table.tensors = {plain_tensor("first", DType::f32, Shape{40, 30}),
                   plain_tensor("second", DType::bf16, Shape{101, 7}),
                   plain_tensor("third", DType::i64, Shape{64})};
  return table;
}

TEST(LoaderVerify, NamesTheTensorWithAFlippedByteOnEveryRank) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  for (std::size_t t = 0; t < 3; ++t) {
    // Its first, its last and one inner byte, one after the other.
    const TensorMeta tensor = index.tensors[t];
    std::uint64_t byte = tensor.offset + (t == 0 ? 0 : t == 1 ? tensor.bytes() - 1 : tensor.bytes() / 2);
    auto flip = [&] {
      return folder.on_rank_0([&] {
        std::fstream file(folder / "a.h5", std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(byte));
        auto value = static_cast<char>(file.get() ^ 0x10);
        file.seekp(static_cast<std::streamoff>(byte));
        file.put(value);
        return 0;
      });
    };
    flip();
    index = shared([&] { return read_hdf5_index(folder / "a.h5"); });
    for (const char* strategy : {"slab", "rank0-full", "every-rank"}) {
      for (const Way& way : kWays) {
        for (VerifyMode verify : {VerifyMode::checksum, VerifyMode::shards, VerifyMode::none}) {
          Hdf5Storage storage(index, Transfer::direct, MPI_COMM_WORLD);
          PlanParams params;
          params.strategy = strategy;
          params.min_read = way.min_read;
          Loaded loaded = load(index, preset(way.layout), params, storage, verify);
          if (verify == VerifyMode::none) {
            EXPECT_THAT(loaded.result.wrong, IsEmpty());
            continue;
          }
          ASSERT_EQ(loaded.result.wrong.size(), 1u) << strategy << " " << way.name;
          const Mismatch& wrong = loaded.result.wrong[0];
          EXPECT_EQ(wrong.tensor, t);
          EXPECT_EQ(wrong.expected,
                    plain_crc64(formula_bytes(kSeed, tensor.name, tensor.dtype, tensor.elements())));
          EXPECT_NE(wrong.found, wrong.expected);
        }
      }
    }
    flip();
  }
}

// Passes everything on, but on one rank damages a byte that another rank has sent.
class DamagingFabric final : public Fabric {
 public:
  explicit DamagingFabric(bool here) : inner_(MPI_COMM_WORLD), here_(here) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  }

  void make_groups(const std::vector<std::vector<int>>& groups) override {
    groups_ = groups;
    inner_.make_groups(groups);
  }
  void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) override {
    inner_.all_gather(group, data, bytes, part);
    const std::vector<int>& members = groups_[group];
    if (members.front() != rank_) arrives(data);
    if (members.front() == rank_ && part < bytes) arrives(static_cast<char*>(data) + part);
  }
  void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) override {
    inner_.broadcast(group, root, data, bytes);
    if (groups_[group][static_cast<std::size_t>(root)] != rank_) arrives(data);
  }
  void send(int peer, const void* data, std::uint64_t bytes) override { inner_.send(peer, data, bytes); }
  void receive(int peer, void* data, std::uint64_t bytes) override {
    inner_.receive(peer, data, bytes);
    arrives(data);
  }
  void start() override { inner_.start(); }
  void progress() override { inner_.progress(); }
  void finish() override {
    inner_.finish();
    if (here_ && first_ != nullptr && !done) {
      *first_ ^= 1;
      done = true;
    }
  }
  std::string description() const override { return "damaging"; }

  bool done = false;

 private:
  void arrives(void* data) {
    if (first_ == nullptr) first_ = static_cast<char*>(data);
  }
  mpi::MpiFabric inner_;
  bool here_;
  int rank_ = 0;
  std::vector<std::vector<int>> groups_;
  char* first_ = nullptr;
};

TEST(LoaderVerify, FindsWhatWasDamagedBetweenRanks) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::uint64_t damaged_loads = 0;
  for (const char* strategy : {"slab", "rank0-broadcast"}) {
    for (const Way& way : kWays) {
      for (VerifyMode verify : {VerifyMode::checksum, VerifyMode::shards}) {
        SCOPED_TRACE(std::string(strategy) + " " + way.name);
        Hdf5Storage storage(index, Transfer::direct, MPI_COMM_WORLD);
        DamagingFabric fabric(control.rank() == control.ranks() - 1);
        PlanParams params;
        params.strategy = strategy;
        params.min_read = way.min_read;
        Loaded loaded = load(index, preset(way.layout), params, storage, verify, &fabric);
        // What is truly wrong: compared on every rank with the formula.
        std::vector<std::uint64_t> truly(3, 0);
        for (const std::string& name :
             wrong_shards(index, loaded, {world()}, dims_of(index, way.layout), {}, formula(kSeed))) {
          for (std::size_t t = 0; t < 3; ++t) truly[t] |= index.tensors[t].name == name;
        }
        control.max(truly);
        std::uint64_t count = truly[0] + truly[1] + truly[2];
        damaged_loads += count;
        if (verify == VerifyMode::checksum) {
          EXPECT_THAT(loaded.result.wrong, IsEmpty());  // it only proves what was read
          continue;
        }
        std::vector<std::uint64_t> named(3, 0);
        for (const Mismatch& wrong : loaded.result.wrong) named[wrong.tensor] = 1;
        EXPECT_EQ(named, truly);
      }
    }
  }
  EXPECT_GE(damaged_loads, world() > 1 ? 8u : 0u);
}

// Throws at the nth read of this rank.
class FailingStorage final : public Storage {
 public:
  FailingStorage(Storage& inner, std::uint64_t fail_at, std::string message, Status status)
      : inner_(inner), fail_at_(fail_at), message_(std::move(message)), status_(status) {}

  void read(const TensorMeta& tensor, const Box& box, void* out) override {
    if (reads++ == fail_at_) throw Error(status_, message_);
    inner_.read(tensor, box, out);
  }
  void read_collective(const TensorMeta& tensor, const Box* box, void* out) override {
    inner_.read_collective(tensor, box, out);
  }
  bool collective(const TensorMeta& tensor) const override { return inner_.collective(tensor); }
  void check_unchanged() override {
    if (changed) throw Error(Status::file, message_);
  }
  StorageCounters counters() const override { return inner_.counters(); }
  std::string description() const override { return "failing"; }

  std::uint64_t reads = 0;
  bool changed = false;

 private:
  Storage& inner_;
  std::uint64_t fail_at_;
  std::string message_;
  Status status_;
};

constexpr std::uint64_t kNever = ~std::uint64_t{0};

void expect_agreed(const TensorIndex& index, const Way& way, Storage& storage, int culprit, Status status,
                   const std::string& message) {
  PlanParams params;
  params.min_read = way.min_read;
  params.staging = 3000;  // several rounds
  params.round_bytes = 400;
  try {
    load(index, preset(way.layout), params, storage, VerifyMode::checksum);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.status(), status);
    EXPECT_EQ(error.rank(), culprit);
    // Another rank than 0 says which one it is, in front.
    EXPECT_THAT(error.message(), ::testing::EndsWith(message));
    EXPECT_THAT(error.message(),
                ::testing::StartsWith(culprit == 0 ? message : fmt::format("[rank {} ", culprit)));
  }
}

TEST(LoaderFailure, OfOneRankIsEveryones) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Storage real(index, Transfer::direct, MPI_COMM_WORLD);
  for (const Way& way : kWays) {
    PlanParams params;
    params.min_read = way.min_read;
    params.staging = 3000;
    params.round_bytes = 400;
    FailingStorage counting(real, kNever, "", Status::file);
    Loaded loaded = load(index, preset(way.layout), params, counting, VerifyMode::checksum);
    EXPECT_GT(loaded.plan.rounds.size(), 2u) << way.name;
    for (int culprit : std::set<int>{0, control.ranks() / 2, control.ranks() - 1}) {
      std::uint64_t reads[] = {control.rank() == culprit ? counting.reads : 0};
      control.max(reads);
      ASSERT_GT(reads[0], 1u) << way.name;
      for (std::uint64_t at : std::set<std::uint64_t>{0, 1, reads[0] / 2, reads[0] - 1}) {
        SCOPED_TRACE(fmt::format("{}, read {} of rank {}", way.name, at, culprit));
        std::string message = fmt::format("a.h5: rank {} cannot read", culprit);
        FailingStorage failing(real, control.rank() == culprit ? at : kNever, message, Status::file);
        expect_agreed(index, way, failing, culprit, Status::file, message);
      }
    }
  }
}

TEST(LoaderFailure, TheLowestOfSeveralRanksIsNamed) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Storage real(index, Transfer::direct, MPI_COMM_WORLD);
  int lowest = control.ranks() / 2;
  for (const Way& way : kWays) {
    FailingStorage failing(real, control.rank() >= lowest ? 0 : kNever,
                           fmt::format("rank {} fails", control.rank()), Status::peer);
    expect_agreed(index, way, failing, lowest, Status::peer, fmt::format("rank {} fails", lowest));
  }
}

TEST(LoaderFailure, AFileThatChangedAtTheEndIsEveryones) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Storage real(index, Transfer::direct, MPI_COMM_WORLD);
  int culprit = control.ranks() - 1;
  for (const Way& way : kWays) {
    FailingStorage failing(real, kNever, "a.h5: cut short", Status::file);
    failing.changed = control.rank() == culprit;
    expect_agreed(index, way, failing, culprit, Status::file, "a.h5: cut short");
  }
}

// After a failure the same processes load again: nothing of it is left in the fabric.
TEST(LoaderFailure, LeavesTheRanksAbleToLoad) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Storage real(index, Transfer::independent, MPI_COMM_WORLD);
  for (const Way& way : kWays) {
    FailingStorage failing(real, control.rank() == 0 ? 1 : kNever, "once", Status::file);
    expect_agreed(index, way, failing, 0, Status::file, "once");
    PlanParams params;
    params.min_read = way.min_read;
    Loaded loaded = load(index, preset(way.layout), params, real, VerifyMode::shards);
    EXPECT_THAT(wrong_shards(index, loaded, {world()}, dims_of(index, way.layout), {}, formula(kSeed)),
                IsEmpty());
    EXPECT_THAT(loaded.result.wrong, IsEmpty());
  }
}

}  // namespace
}  // namespace slabload
