// Each step in which ranks wait for each other or for the device, alone: that it comes to its end, and that
// all ranks have the error of one that fails in it. tests/gpu/mutants.sh leaves each wait and agreement out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/hdf5/reader.h"
#include "backend/nccl/versions.h"
#include "backend/safetensors/storage.h"
#include "gpu/mutant_parts.h"

namespace slabload {
namespace {

using namespace slabload::testing;  // NOLINT: everything here is a test
using ::testing::HasSubstr;

const char kConnecting[] = "plan (connecting the ranks)";

// All ranks, and all but the last: one communicator of all, and one that is split from it.
std::vector<std::vector<int>> two_groups(int rank, int ranks) {
  std::vector<int> all, first, last{ranks - 1};
  for (int r = 0; r < ranks; ++r) {
    all.push_back(r);
    if (r < ranks - 1) first.push_back(r);
  }
  return {all, rank < ranks - 1 ? first : last};
}

std::vector<int> all_others(int rank, int ranks) {
  std::vector<int> peers;
  for (int r = 0; r < ranks; ++r) {
    if (r != rank) peers.push_back(r);
  }
  return peers;
}

// ---- waits

TEST(Mutant, WarmsUp) {
  cuda::CudaDevice device(gpu_ordinal());
  fault_mutant("warm_up");
  device.warm_up();
  Mark done = device.mark();
  mpi::MpiControl control(MPI_COMM_WORLD);
  const double before = now_s();
  wait_until(control, [&] { return device.passed(done).has_value(); });
  EXPECT_NEAR(*device.passed(done), before, 10);
}

TEST(Mutant, ConnectsAndTransfers) {
  Parts parts;
  const int rank = parts.control.rank(), ranks = parts.control.ranks();
  const std::vector<std::vector<int>> groups = two_groups(rank, ranks);
  const std::vector<int> peers = all_others(rank, ranks);
  parts.monitor.waiting(kConnecting, nullptr);
  fault_mutant("connect");
  parts.fabric.connect(groups, peers);

  // Regions of one part for each member, a message of a part for each peer and room for one from it.
  constexpr std::uint64_t kPart = 10000;
  const std::uint64_t regions = groups[0].size() + groups[1].size();
  const std::uint64_t bytes = (regions + 2 * peers.size()) * kPart;
  std::unique_ptr<DeviceMemory> here = gpu().allocate_staging(bytes, "the test");
  std::unique_ptr<DeviceMemory> there = gpu().allocate(bytes, "the test");
  std::memset(here->data(), rank + 1, bytes);
  gpu().copy_in(here->data(), there->data(), bytes);
  std::byte* at = there->data();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    parts.fabric.all_gather(group, at, groups[group].size() * kPart, kPart);
    at += groups[group].size() * kPart;
  }
  for (int peer : peers) {
    parts.fabric.send(peer, at, kPart);
    parts.fabric.receive(peer, at + kPart, kPart);
    at += 2 * kPart;
  }
  Fabric::Ticket ticket = parts.fabric.start();
  wait_until(parts.control, [&] { return parts.fabric.finished(ticket).has_value(); });
  gpu().copy_out(there->data(), here->data(), bytes);
  Mark done = gpu().mark();
  wait_until(parts.control, [&] { return gpu().passed(done).has_value(); });

  std::vector<int> from;
  for (const std::vector<int>& members : groups) from.insert(from.end(), members.begin(), members.end());
  for (int peer : peers) from.insert(from.end(), {rank, peer});
  for (std::size_t part = 0; part < from.size(); ++part) {
    const std::byte* first = here->data() + part * kPart;
    const std::byte want{static_cast<unsigned char>(from[part] + 1)};
    EXPECT_EQ(std::count(first, first + kPart, want), static_cast<std::ptrdiff_t>(kPart)) << "part " << part;
  }
}

// No transfers, so nothing is aborted: what the copies of the rank that failed still read is freed when they
// have ended.
TEST(Mutant, WaitsForItsCopiesAfterAFailure) {
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, some_tensors());
  Parts parts;
  const int culprit = parts.control.ranks() - 1;
  SafetensorsStorage inner(index);
  FailingStorage storage(inner, parts.control.rank() == culprit ? 2 : -1);
  try {
    load_on_gpu(index, preset("fsdp2"), tight(1), storage, VerifyMode::none, 4 << 20, parts.all());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.rank(), culprit);
  }
}

// ---- reductions

TEST(Mutant, NamesDamageAlike) {
  SharedFolder folder;
  TensorIndex index = write_hdf5(folder, some_tensors());
  Parts parts;
  // Known to one rank alone.
  if (parts.control.rank() == parts.control.ranks() - 1) index.tensors[2].crc64 = *index.tensors[2].crc64 ^ 1;
  Hdf5Storage storage(index, Hdf5Storage::Transfer::direct, MPI_COMM_WORLD);
  GpuLoaded loaded =
      load_on_gpu(index, preset("fsdp2"), tight(1), storage, VerifyMode::shards, 4 << 20, parts.all());
  EXPECT_EQ(loaded.result.verified, index.tensors.size());
  ASSERT_EQ(loaded.result.wrong.size(), 1u);
  EXPECT_EQ(loaded.result.wrong[0].tensor, 2u);
}

// ---- agreements

// One rank fails in `step` by the double's fault: all have its error, which says `said`.
template <typename Step>
void fails_alike(Control& control, int culprit, const std::string& fault, const std::string& said,
                 Step&& step) {
  SCOPED_TRACE(said);
  set_faults(control.rank() == culprit && !fault.empty() ? "*:" + fault : "");
  try {
    step();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    if (!error.agreed()) {
      // The others may be waiting for this rank.
      std::fprintf(stderr, "not agreed on: %s\n", error.message().c_str());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    EXPECT_EQ(error.rank(), culprit);
    EXPECT_THAT(error.message(), HasSubstr(said));
  }
  set_faults("");
}

// NCCL's errors are 1, 2, 3, ..., CUDA's 999 is "unknown" and 2 is lack of memory.
TEST(Mutant, ConnectFailsAlikeInEachStep) {
  if (world() == 1 || !set_faults("")) return;
  mpi::MpiControl control(MPI_COMM_WORLD);
  const int rank = control.rank(), ranks = control.ranks(), last = ranks - 1;
  struct Step {
    int culprit;
    std::string fault, said;
  };
  for (const Step& step :
       std::vector<Step>{{last, "cudaStreamCreateWithFlags:1:999", "cudaStreamCreateWithFlags"},
                         {last, "cudaMemGetInfo:1:999", "cudaMemGetInfo"},
                         {0, "ncclGetUniqueId:1:3", "ncclGetUniqueId: "},
                         {last, "ncclCommInitRankConfig:1:3", "ncclCommInitRankConfig"},
                         {last, "settle:1:3", "NCCL"},
                         {last, "ncclCommSplit:1:3", "ncclCommSplit"},
                         {0, "settle:2:3", "NCCL"},
                         {0, "settle:3:3", "NCCL"},
                         {last, "cudaMalloc:1:2", "connecting the ranks"},
                         {last, "ncclAllGather:1:3", "ncclAllGather"}}) {
    // Two ranks have nothing to split.
    if (ranks == 2 && (step.fault == "ncclCommSplit:1:3" || step.fault == "settle:3:3")) continue;
    Parts parts;
    parts.monitor.waiting(kConnecting, nullptr);
    fails_alike(control, step.culprit, step.fault, step.said,
                [&] { parts.fabric.connect(two_groups(rank, ranks), all_others(rank, ranks)); });
  }
  Parts parts;
  parts.monitor.waiting("versions", nullptr);
  fails_alike(control, last, "ncclGetVersion:1:3", "ncclGetVersion",
              [&] { nccl::check_versions(parts.mutant_control); });
}

// Connects well, and then fails on one rank.
class LateFailure final : public ForwardingFabric {
 public:
  LateFailure(Fabric& inner, bool fails) : ForwardingFabric(inner), fails_(fails) {}
  void connect(const std::vector<std::vector<int>>& groups, const std::vector<int>& peers) override {
    inner_.connect(groups, peers);
    if (fails_) fail(Status::internal, "a late failure");
  }

 private:
  bool fails_;
};

TEST(Mutant, LoadFailsAlikeInEachStep) {
  if (!set_faults("")) return;
  SharedFolder folder;
  TensorIndex index = write_safetensors(folder, some_tensors());
  mpi::MpiControl control(MPI_COMM_WORLD);
  const int last = control.ranks() - 1;
  auto step = [&](const std::string& fault, const std::string& said) {
    Parts parts;
    SafetensorsStorage storage(index);
    LateFailure late(parts.fabric, fault.empty() && control.rank() == last);
    GpuParts all = parts.all();
    if (fault.empty()) all.fabric = &late;
    fails_alike(control, last, fault, said, [&] {
      load_on_gpu(index, preset("replicate"), tight(1), storage, VerifyMode::shards, 4 << 20, all);
    });
  };
  step("", "a late failure");
  // The first of each is for connecting, where there is somebody to connect to.
  step(world() == 1 ? "cudaMalloc:1:2" : "cudaMalloc:2:2", "the shards");
  step(world() == 1 ? "cudaMemsetAsync:1:999" : "cudaMemsetAsync:2:999", "cudaMemsetAsync");
}

}  // namespace
}  // namespace slabload
