// What a load says of damaged bytes, and how the failure of one rank ends on all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <fstream>
#include <set>

#include "backend/hdf5/index.h"
#include "backend/hdf5/reader.h"
#include "exec/loader.h"
#include "fakes/forwarding.h"
#include "mpi/loader_files.h"
#include "mpi/loader_run.h"
#include "tools/shared_folder.h"

namespace slabload {
namespace {

using namespace slabload::testing;  // NOLINT: everything here is a test
using ::testing::IsEmpty;
using Transfer = Hdf5Storage::Transfer;

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
      for (const LoadWay& way : kWays) {
        for (VerifyMode verify : {VerifyMode::checksum, VerifyMode::shards, VerifyMode::none}) {
          Hdf5Storage storage(index, Transfer::direct, MPI_COMM_WORLD);
          PlanParams params;
          way.set(params);
          if (is_baseline(strategy)) params.strategy = strategy;
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

  void connect(const std::vector<std::vector<int>>& groups, const std::vector<int>& peers) override {
    groups_ = groups;
    inner_.connect(groups, peers);
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
  Ticket start() override {
    Ticket ticket = inner_.start();
    if (first_ != nullptr && !set_) set_ = ticket;
    return ticket;
  }
  void progress() override { inner_.progress(); }
  std::optional<Span> finished(Ticket ticket) override {
    std::optional<Span> span = inner_.finished(ticket);
    if (here_ && span && set_ == ticket && !done) {
      *first_ ^= 1;
      done = true;
    }
    return span;
  }
  bool abort() noexcept override { return inner_.abort(); }
  std::uint64_t own_bytes() const override { return 0; }
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
  std::optional<Ticket> set_;  // the one that brings it
};

// Passes reads on, but damages the first on this rank.
class DamagingStorage final : public ForwardingStorage {
 public:
  DamagingStorage(Storage& inner, bool here) : ForwardingStorage(inner), here_(here) {}
  void read(const TensorMeta& tensor, const Box& box, void* out) override {
    inner_.read(tensor, box, out);
    damage(out);
  }
  void read_extent(const TensorMeta& first, const TensorMeta& last, std::uint64_t offset, std::uint64_t bytes,
                   void* out) override {
    inner_.read_extent(first, last, offset, bytes, out);
    damage(out);
  }
  bool done = false;

 private:
  void damage(void* out) {
    if (here_ && !done) *static_cast<char*>(out) ^= 1;
    done = done || here_;
  }
  bool here_;
};

// Where each replica reads for itself, one that reads something else than the others is noticed as well.
TEST(LoaderVerify, FindsWhatOneRankAloneHasReadWrong) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Storage real(index, Transfer::direct, MPI_COMM_WORLD);
  for (const LoadWay& way : kWays) {
    for (int culprit : std::set<int>{0, control.ranks() - 1}) {
      for (VerifyMode verify : {VerifyMode::checksum, VerifyMode::shards}) {
        SCOPED_TRACE(fmt::format("{}, rank {}", way.name, culprit));
        PlanParams params;
        way.set(params);
        DamagingStorage storage(real, control.rank() == culprit);
        Loaded loaded = load(index, preset(way.layout), params, storage, verify);
        std::uint64_t done[] = {storage.done ? std::uint64_t{1} : 0};
        control.max(done);
        EXPECT_EQ(loaded.result.wrong.size(), done[0]);
        if (std::string(way.strategy) == "auto" && control.ranks() > 1) {
          EXPECT_FALSE(loaded.plan.rereads.empty());
          EXPECT_EQ(done[0], 1u);
        }
      }
    }
  }
}

TEST(LoaderVerify, FindsWhatWasDamagedBetweenRanks) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::uint64_t damaged_loads = 0;
  for (const char* strategy : {"slab", "rank0-broadcast"}) {
    for (const LoadWay& way : kWays) {
      for (VerifyMode verify : {VerifyMode::checksum, VerifyMode::shards}) {
        SCOPED_TRACE(std::string(strategy) + " " + way.name);
        Hdf5Storage storage(index, Transfer::direct, MPI_COMM_WORLD);
        DamagingFabric fabric(control.rank() == control.ranks() - 1);
        PlanParams params;
        way.set(params);
        if (is_baseline(strategy)) params.strategy = strategy;
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
class FailingStorage final : public ForwardingStorage {
 public:
  FailingStorage(Storage& inner, std::uint64_t fail_at, std::string message, Status status)
      : ForwardingStorage(inner), fail_at_(fail_at), message_(std::move(message)), status_(status) {}

  void before_read() override {
    if (reads++ == fail_at_) throw Error(status_, message_);
  }
  void check_unchanged() override {
    if (changed) throw Error(Status::file, message_);
  }

  std::uint64_t reads = 0;
  bool changed = false;

 private:
  std::uint64_t fail_at_;
  std::string message_;
  Status status_;
};

constexpr std::uint64_t kNever = ~std::uint64_t{0};

// `at_tensor`: the failure belongs to a tensor, which has to be named.
void expect_agreed(const TensorIndex& index, const LoadWay& way, Storage& storage, int culprit, Status status,
                   const std::string& message, bool at_tensor = true) {
  PlanParams params;
  way.set(params);
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
    const char* tensor = at_tensor ? " \\(tensor (first|second|third)\\)$" : "$";
    EXPECT_THAT(error.message(), ::testing::ContainsRegex(message + tensor));
    EXPECT_THAT(error.message(),
                ::testing::StartsWith(culprit == 0 ? message : fmt::format("[rank {} ", culprit)));
  }
}

TEST(LoaderFailure, OfOneRankIsEveryones) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Storage real(index, Transfer::direct, MPI_COMM_WORLD);
  for (const LoadWay& way : kWays) {
    PlanParams params;
    way.set(params);
    params.staging = 3000;
    params.round_bytes = 400;
    FailingStorage counting(real, kNever, "", Status::file);
    Loaded loaded = load(index, preset(way.layout), params, counting, VerifyMode::checksum);
    EXPECT_GT(loaded.plan.rounds.size(), 1u) << way.name;
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
  for (const LoadWay& way : kWays) {
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
  for (const LoadWay& way : kWays) {
    FailingStorage failing(real, kNever, "a.h5: cut short", Status::file);
    failing.changed = control.rank() == culprit;
    expect_agreed(index, way, failing, culprit, Status::file, "a.h5: cut short", false);
  }
}

// After a failure the same processes load again: nothing of it is left in the fabric.
TEST(LoaderFailure, LeavesTheRanksAbleToLoad) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, three_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Storage real(index, Transfer::independent, MPI_COMM_WORLD);
  for (const LoadWay& way : kWays) {
    FailingStorage failing(real, control.rank() == 0 ? 1 : kNever, "once", Status::file);
    expect_agreed(index, way, failing, 0, Status::file, "once");
    PlanParams params;
    way.set(params);
    Loaded loaded = load(index, preset(way.layout), params, real, VerifyMode::shards);
    EXPECT_THAT(wrong_shards(index, loaded, {world()}, dims_of(index, way.layout), {}, formula(kSeed)),
                IsEmpty());
    EXPECT_THAT(loaded.result.wrong, IsEmpty());
  }
}

}  // namespace
}  // namespace slabload
