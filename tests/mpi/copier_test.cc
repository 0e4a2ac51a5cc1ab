// copy_checkpoint() at any number of ranks: bit for bit, checked, through a small buffer, and no error left
// alone.
#include "exec/copier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>

#include "backend/mpi/control.h"
#include "backend/safetensors/index.h"
#include "backend/safetensors/storage.h"
#include "fakes/memory_sink.h"
#include "fakes/safetensors_bytes.h"
#include "fakes/temp_folder.h"
#include "mpi/loader_run.h"

namespace slabload {
namespace {

using slabload::testing::counting_bytes;
using slabload::testing::MemorySink;
using slabload::testing::safetensors_bytes;
using slabload::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A checkpoint on disk that rank 0 makes and all ranks read.
class Checkpoint {
 public:
  explicit Checkpoint(Control& control) : control_(control) {
    std::string index;
    if (control.rank() == 0) {
      folder_ = std::make_unique<TempFolder>();
      folder_->write("a.safetensors",
                     safetensors_bytes(R"({"__metadata__":{"format":"pt"},)"
                                       R"("w":{"dtype":"F32","shape":[3,5,4],"data_offsets":[0,240]},)"
                                       R"("check":{"dtype":"U8","shape":[9],"data_offsets":[240,249]}})",
                                       counting_bytes(240) + "123456789"));
      folder_->write("b.safetensors",
                     safetensors_bytes(R"({"x":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                       R"("none":{"dtype":"F16","shape":[0],"data_offsets":[8,8]},)"
                                       R"("y":{"dtype":"BF16","shape":[7],"data_offsets":[8,22]}})",
                                       counting_bytes(22, 64)));
      index = to_bytes(read_safetensors_index(folder_->path()));
    }
    index_ = index_from_bytes(control.broadcast(index, 0));
  }
  ~Checkpoint() { control_.barrier(); }  // no rank removes what another still reads

  TensorIndex& index() { return index_; }
  TensorMeta& tensor(const std::string& name) {
    for (TensorMeta& t : index_.tensors) {
      if (t.name == name) return t;
    }
    throw std::logic_error(name);
  }

 private:
  Control& control_;
  std::unique_ptr<TempFolder> folder_;
  TensorIndex index_;
};

const std::string& bytes_in(const MemorySink& sink, const std::string& name) {
  for (std::size_t t = 0; t < sink.index().tensors.size(); ++t) {
    if (sink.index().tensors[t].name == name) return sink.bytes(t);
  }
  throw std::logic_error(name);
}

// The published check value: CRC-64/XZ of "123456789".
constexpr std::uint64_t kCheckCrc = 0x995dc9bbdf1939fa;

TEST(Copier, CopiesBitForBitWithChecksums) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Checkpoint checkpoint(control);
  // 24 bytes: less than a row of "w" of five, so pieces begin and end anywhere.
  for (std::uint64_t buffer : {std::uint64_t{24}, std::uint64_t{0}, kMaxCopyBuffer, ~std::uint64_t{0}}) {
    SafetensorsStorage source(checkpoint.index());
    MemorySink sink(control);
    testing::QuietMonitor monitor;
    TransferResult result = copy_checkpoint(source, checkpoint.index(), sink, control, buffer, &monitor);
    ASSERT_TRUE(sink.committed());
    EXPECT_EQ(bytes_in(sink, "w"), counting_bytes(240));
    EXPECT_EQ(bytes_in(sink, "check"), "123456789");
    EXPECT_EQ(bytes_in(sink, "x"), counting_bytes(8, 64));
    EXPECT_EQ(bytes_in(sink, "y"), counting_bytes(14, 72));
    EXPECT_EQ(bytes_in(sink, "none"), "");
    for (std::size_t t = 0; t < sink.crc64().size(); ++t) {
      EXPECT_EQ(sink.crc64()[t], result.crc64[t]);
      if (sink.index().tensors[t].name == "check") {
        EXPECT_EQ(sink.crc64()[t], kCheckCrc);
      }
      if (sink.index().tensors[t].name == "none") {
        EXPECT_EQ(sink.crc64()[t], 0u);
      }
    }
    EXPECT_EQ(sink.index().metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
    EXPECT_EQ(result.tensors_checked, 0u);
    EXPECT_LE(sink.largest_write, std::max<std::uint64_t>(buffer, 8));
    EXPECT_EQ(monitor.done, result.bytes);
    // Read once, over all ranks.
    std::uint64_t bytes[] = {result.bytes, source.counters().bytes};
    control.sum(bytes);
    EXPECT_EQ(bytes[0], 240u + 9 + 22);
    EXPECT_EQ(bytes[1], 240u + 9 + 22);
  }
}

TEST(Copier, TurnsBigEndianAround) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Checkpoint checkpoint(control);
  for (const char* name : {"w", "x", "y"}) checkpoint.tensor(name).big_endian = true;
  SafetensorsStorage source(checkpoint.index());
  MemorySink sink(control);
  copy_checkpoint(source, checkpoint.index(), sink, control, 24);
  ASSERT_TRUE(sink.committed());
  auto turned = [](std::string bytes, std::size_t element) {
    for (std::size_t i = 0; i < bytes.size(); i += element) {
      std::reverse(bytes.begin() + static_cast<long>(i), bytes.begin() + static_cast<long>(i + element));
    }
    return bytes;
  };
  EXPECT_EQ(bytes_in(sink, "w"), turned(counting_bytes(240), 4));
  EXPECT_EQ(bytes_in(sink, "x"), turned(counting_bytes(8, 64), 8));
  EXPECT_EQ(bytes_in(sink, "y"), turned(counting_bytes(14, 72), 2));
  for (const TensorMeta& t : sink.index().tensors) EXPECT_FALSE(t.big_endian);
}

// Expects the error on every rank, agreed on.
Error failure_of(Storage& source, const TensorIndex& index, MemorySink& sink, Control& control) {
  try {
    copy_checkpoint(source, index, sink, control, 24);
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_TRUE(sink.abandoned());
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(Status::ok, "no error");
}

TEST(Copier, ComparesWithTheSourcesChecksums) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Checkpoint checkpoint(control);
  checkpoint.tensor("check").crc64 = kCheckCrc;
  SafetensorsStorage source(checkpoint.index());
  MemorySink good(control);
  EXPECT_EQ(copy_checkpoint(source, checkpoint.index(), good, control, 24).tensors_checked, 1u);
  EXPECT_TRUE(good.committed());

  checkpoint.tensor("check").crc64 = kCheckCrc ^ 1;
  MemorySink bad(control);
  Error error = failure_of(source, checkpoint.index(), bad, control);
  EXPECT_EQ(error.status(), Status::wrong_data);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("a.safetensors"), HasSubstr("tensor check "),
                                     HasSubstr("995dc9bbdf1939fa"), HasSubstr("995dc9bbdf1939fb")));
}

TEST(Copier, OneRanksFailureEndsAll) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Checkpoint checkpoint(control);
  SafetensorsStorage source(checkpoint.index());
  for (int culprit : std::set<int>{0, control.ranks() - 1}) {
    MemorySink sink(control);
    if (control.rank() == culprit) sink.fail_write = 0;
    Error error = failure_of(source, checkpoint.index(), sink, control);
    EXPECT_EQ(error.rank(), culprit);
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_THAT(error.message(), HasSubstr("the disk is full"));
  }
}

TEST(Copier, RefusesASourceThatChangesMeanwhile) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Checkpoint checkpoint(control);
  namespace fs = std::filesystem;
  std::string path = checkpoint.index().files[1].path;
  auto touch = [&] {
    control.barrier();
    if (control.rank() == 0) fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
    control.barrier();
  };
  // Changed before the first read; then in the middle, after the last.
  touch();
  SafetensorsStorage late(checkpoint.index());
  MemorySink sink(control);
  Error error = failure_of(late, checkpoint.index(), sink, control);
  EXPECT_EQ(error.status(), Status::file);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("b.safetensors"), HasSubstr("changed")));

  // A wrong checksum of a changed file is the change's fault and reported as such.
  class ChangesAtTheEnd final : public Storage {
   public:
    explicit ChangesAtTheEnd(Storage& inner) : inner_(inner) {}
    void read(const TensorMeta& tensor, const Box& box, void* out) override { inner_.read(tensor, box, out); }
    void read_extent(const TensorMeta&, const TensorMeta&, std::uint64_t, std::uint64_t, void*) override {
      ADD_FAILURE() << "not asked for";
    }
    void read_collective(const TensorMeta&, const Box*, void*) override { ADD_FAILURE() << "not asked for"; }
    bool collective(const TensorMeta&) const override { return false; }
    void check_unchanged() override { fail(Status::file, "fake: the file changed"); }
    StorageCounters counters() const override { return inner_.counters(); }
    std::string description() const override { return "fake"; }

   private:
    Storage& inner_;
  };
  checkpoint.tensor("check").crc64 = 1;
  for (CheckpointFile& file : checkpoint.index().files) {
    file.mtime_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::file_clock::to_sys(fs::last_write_time(file.path)).time_since_epoch())
                        .count();
  }
  SafetensorsStorage inner(checkpoint.index());
  ChangesAtTheEnd source(inner);
  MemorySink second(control);
  error = failure_of(source, checkpoint.index(), second, control);
  EXPECT_THAT(error.message(), HasSubstr("fake: the file changed"));
}

}  // namespace
}  // namespace slabload
