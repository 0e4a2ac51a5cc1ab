// The load with one wait, agreement or return left out, as SLABLOAD_MUTANT says; tests/gpu/mutants.sh expects
// that each such load is caught: by the doubles, by a wrong byte, or by not coming to an end. Without the
// variable it has to pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/safetensors/storage.h"
#include "fakes/forwarding.h"
#include "gpu/gpu_run.h"
#include "mpi/loader_files.h"

namespace slabload {
namespace {

using namespace slabload::testing;  // NOLINT: everything here is a test
using ::testing::HasSubstr;

std::string mutant() {
  const char* name = std::getenv("SLABLOAD_MUTANT");
  return name == nullptr ? "" : name;
}

// Knows what the loader is doing: the waits are told apart by that.
class PhaseMonitor final : public Monitor {
 public:
  void at(const char* phase, const std::string*) override { phase_ = phase; }
  void waiting(const char* phase, const std::string*) override { phase_ = phase; }
  void moved(std::uint64_t, std::uint64_t) override {}
  bool in(const char* part) const { return phase_.find(part) != std::string::npos; }

 private:
  std::string phase_;
};

class MutantDevice final : public Device {
 public:
  MutantDevice(Device& inner, const PhaseMonitor& monitor) : inner_(inner), monitor_(monitor) {}

  std::unique_ptr<DeviceMemory> allocate(std::uint64_t bytes, const char* purpose) override {
    return inner_.allocate(bytes, purpose);
  }
  std::unique_ptr<DeviceMemory> allocate_staging(std::uint64_t bytes, const char* purpose) override {
    return inner_.allocate_staging(bytes, purpose);
  }
  bool host_accessible() const override { return inner_.host_accessible(); }
  void prepare(std::byte* data, std::uint64_t bytes) override { inner_.prepare(data, bytes); }
  void warm_up() override { inner_.warm_up(); }
  void copy_in(const std::byte* host, std::byte* to, std::uint64_t bytes) override {
    inner_.copy_in(host, to, bytes);
  }
  void copy_out(const std::byte* from, std::byte* host, std::uint64_t bytes) override {
    inner_.copy_out(from, host, bytes);
  }
  void cast(DType from, DType to, const std::byte* in, std::uint64_t count, std::byte* out) override {
    inner_.cast(from, to, in, count, out);
  }
  void copy_box(std::uint32_t size, const Box& box, const std::byte* from, const Box& from_box, std::byte* to,
                const Box& to_box) override {
    inner_.copy_box(size, box, from, from_box, to, to_box);
  }
  void checksum_box(const Shape& shape, const Box& box, std::uint32_t size, const std::byte* data,
                    std::byte* sum) override {
    inner_.checksum_box(shape, box, size, data, sum);
  }
  Mark mark() override { return inner_.mark(); }
  std::optional<double> passed(Mark mark) override {
    if (mutant() == "slot_wait" && monitor_.in("staging slot")) return 0;
    if (mutant() == "slot_return" && monitor_.in("staging slot")) return std::nullopt;
    if (mutant() == "last_copies" && monitor_.in("last copies")) return 0;
    if (mutant() == "sums_back" && monitor_.in("verify (shards)")) return 0;
    return inner_.passed(mark);
  }
  std::uint64_t peak_bytes() const override { return inner_.peak_bytes(); }
  std::string description() const override { return inner_.description(); }

 private:
  Device& inner_;
  const PhaseMonitor& monitor_;
};

class MutantFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  std::optional<Span> finished(Ticket ticket) override {
    if (mutant() == "fill_wait") return Span{};
    return inner_.finished(ticket);
  }
};

class MutantControl final : public Control {
 public:
  MutantControl(Control& inner, const PhaseMonitor& monitor) : inner_(inner), monitor_(monitor) {}
  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  const std::string& host() const override { return inner_.host(); }
  void barrier() override { inner_.barrier(); }
  std::string broadcast(std::string bytes, int root) override {
    return inner_.broadcast(std::move(bytes), root);
  }
  std::vector<std::string> gather(const std::string& bytes) override { return inner_.gather(bytes); }
  void sum(std::span<std::uint64_t> values) override { inner_.sum(values); }
  void max(std::span<std::uint64_t> values) override { inner_.max(values); }
  void min(std::span<std::uint64_t> values) override { inner_.min(values); }
  void bit_xor(std::span<std::uint64_t> values) override { inner_.bit_xor(values); }
  void agree(const std::optional<Error>& mine) override {
    if (mutant() == "fill_agreement" && monitor_.in("to have read")) return;
    if (mutant() == "last_agreement" && monitor_.in("to have ended")) return;
    inner_.agree(mine);
  }
  void alarm(const Error& mine) override { inner_.alarm(mine); }
  std::optional<Error> alarmed() override { return inner_.alarmed(); }

 private:
  Control& inner_;
  const PhaseMonitor& monitor_;
};

// Fails on its n-th read, or at the end, when the files are looked at once more.
class FailingStorage final : public ForwardingStorage {
 public:
  static constexpr int kNever = -1, kAtTheEnd = -2;
  FailingStorage(Storage& inner, int fails_at)
      : ForwardingStorage(inner), left_(fails_at), at_the_end_(fails_at == kAtTheEnd) {}
  void read(const TensorMeta& tensor, const Box& box, void* out) override {
    if (left_ >= 0 && left_-- == 0) fail(Status::file, "the disk is gone");
    inner_.read(tensor, box, out);
  }
  void check_unchanged() override {
    if (at_the_end_) fail(Status::file, "the disk is gone");
    inner_.check_unchanged();
  }

 private:
  int left_;
  bool at_the_end_;
};

struct Parts {
  mpi::MpiControl control{MPI_COMM_WORLD};
  PhaseMonitor monitor;
  MutantControl mutant_control{control, monitor};
  MutantDevice device{gpu(), monitor};
  nccl::NcclFabric fabric{mutant_control, gpu(), nccl::NcclOptions{}};
  MutantFabric mutant_fabric{fabric};
  GpuParts all() { return {&mutant_control, &device, &mutant_fabric, &monitor}; }
};

TensorIndex some_tensors() {
  TensorIndex table;
  for (int i = 0; i < 6; ++i) {
    table.tensors.push_back(plain_tensor(fmt::format("rows{}", i), DType::f32, Shape{300, 40}));
    table.tensors.push_back(plain_tensor(fmt::format("small{}", i), DType::bf16, Shape{70}));
  }
  return table;
}

// Two slots of two pages, rounds of 6,000 bytes: slots and staging are used again many times.
PlanParams tight(std::uint64_t min_read) {
  PlanParams params;
  params.pinned = true;
  params.slots = 2;
  params.slot_bytes = 8192;
  params.staging = 200000;
  params.round_bytes = 6000;
  params.min_read = min_read;
  return params;
}

TEST(Mutant, LoadsRight) {
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, some_tensors());
  const char* columns =
      R"j({"rules": [{"match": "rows*", "placements": {"dp_shard": "S(1)"}}], "default": {"dp_shard": "R"}})j";
  Layout by_columns = Layout::from_json(columns, "columns.json", Mesh({{"dp_shard", world()}}), world());
  auto column_dims = [](const TensorMeta& t) {
    return std::vector<int>{t.name.starts_with("rows") ? 1 : -1};
  };
  for (bool spread : {false, true}) {
    Parts parts;
    SafetensorsStorage storage(index);
    GpuLoaded loaded =
        load_on_gpu(index, spread ? by_columns : preset("replicate"), tight(spread ? 1 << 20 : 1), storage,
                    VerifyMode::shards, 1000, parts.all());
    EXPECT_TRUE(loaded.result.wrong.empty());
    for (std::size_t t = 0; t < index.tensors.size(); ++t) {
      std::vector<int> dims = spread ? column_dims(index.tensors[t]) : std::vector<int>{-1};
      EXPECT_TRUE(shard_of(loaded, t) ==
                  expected_shard(index.tensors[t], {world()}, dims, loaded.plan.rank, {}, formula(kSeed)))
          << index.tensors[t].name;
    }
  }
}

// What happens in which order: "start" and "end" of a round's transfers, "read".
class RecordingFabric final : public ForwardingFabric {
 public:
  RecordingFabric(Fabric& inner, std::vector<std::string>& log) : ForwardingFabric(inner), log_(log) {}
  Ticket start() override {
    log_.push_back("start");
    return inner_.start();
  }
  std::optional<Span> finished(Ticket ticket) override {
    std::optional<Span> span = inner_.finished(ticket);
    if (span) log_.push_back("end");
    return span;
  }

 private:
  std::vector<std::string>& log_;
};

class RecordingStorage final : public ForwardingStorage {
 public:
  RecordingStorage(Storage& inner, std::vector<std::string>& log) : ForwardingStorage(inner), log_(log) {}
  void read(const TensorMeta& tensor, const Box& box, void* out) override {
    log_.push_back("read");
    inner_.read(tensor, box, out);
  }

 private:
  std::vector<std::string>& log_;
};

// Every round but the last two is read while the transfers of the one before it are under way.
TEST(Pipeline, ReadsWhileTransfersAreUnderWay) {
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, some_tensors());
  Parts parts;
  std::vector<std::string> log;
  SafetensorsStorage inner(index);
  RecordingStorage storage(inner, log);
  RecordingFabric fabric(parts.fabric, log);
  GpuLoaded loaded = load_on_gpu(index, preset("replicate"), tight(1), storage, VerifyMode::checksum, 4 << 20,
                                 {&parts.control, &gpu(), &fabric, &parts.monitor});
  std::size_t starts = 0, under_way = 0, read_behind = 0, most = 0;
  bool counted = true;
  for (const std::string& what : log) {
    if (what == "start") {
      ++starts;
      most = std::max(most, ++under_way);
      counted = false;
    } else if (what == "end") {
      --under_way;
    } else if (under_way > 0 && !counted) {
      ++read_behind;
      counted = true;
    }
  }
  EXPECT_EQ(under_way, 0u);
  if (world() == 1) {
    EXPECT_EQ(starts, 0u);
    return;
  }
  EXPECT_GT(starts, 4u);
  EXPECT_EQ(most, loaded.plan.rounds_at_once);
  EXPECT_GE(read_behind + 2, starts);
}

// One rank's disk fails, early, in its last round, and after it: all ranks have that rank's error.
TEST(Mutant, FailsAlike) {
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, some_tensors());
  int reads = 0;
  {
    Parts parts;
    SafetensorsStorage storage(index);
    load_on_gpu(index, preset("replicate"), tight(1), storage, VerifyMode::none, 4 << 20, parts.all());
    reads = static_cast<int>(storage.counters().requests);
  }
  for (int at : {0, reads - 1, FailingStorage::kAtTheEnd}) {
    Parts parts;
    SafetensorsStorage inner(index);
    const int culprit = parts.control.ranks() - 1;
    FailingStorage storage(inner, parts.control.rank() == culprit ? at : FailingStorage::kNever);
    try {
      load_on_gpu(index, preset("replicate"), tight(1), storage, VerifyMode::none, 4 << 20, parts.all());
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      EXPECT_EQ(error.rank(), culprit);
      EXPECT_THAT(error.message(), HasSubstr("the disk is gone"));
      if (at != FailingStorage::kAtTheEnd) {
        EXPECT_THAT(error.message(), HasSubstr(" (tensor "));
      }
    }
  }
}

}  // namespace
}  // namespace slabload
