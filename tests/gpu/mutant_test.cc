// The load with one wait, agreement or return left out, as SLABLOAD_MUTANT says; tests/gpu/mutants.sh expects
// that each such load is caught: by the doubles, by a wrong byte, or by not coming to an end. Without the
// variable it has to pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/safetensors/storage.h"
#include "gpu/mutant_parts.h"

namespace slabload {
namespace {

using namespace slabload::testing;  // NOLINT: everything here is a test
using ::testing::HasSubstr;

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
  void before_read() override { log_.push_back("read"); }

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
