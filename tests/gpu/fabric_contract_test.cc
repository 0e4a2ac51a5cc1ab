// NCCL between GPUs, with the doubles of CUDA and NCCL or the real ones: what every fabric promises, and what
// only this one does. Rank r takes the GPU with the number r of those there are.
#include "fakes/fabric_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "backend/mpi/control.h"
#include "backend/nccl/fabric.h"
#include "backend/nccl/versions.h"
#include "gpu/ordinal.h"

namespace slabload::testing {
namespace {

using nccl::NcclFabric;
using ::testing::StartsWith;

Rig make_rig() {
  Rig rig;
  rig.control = std::make_unique<mpi::MpiControl>(MPI_COMM_WORLD);
  auto device = std::make_unique<cuda::CudaDevice>(gpu_ordinal());
  device->warm_up();
  rig.fabric = std::make_unique<NcclFabric>(*rig.control, *device, nccl::NcclOptions{});
  rig.device = std::move(device);
  return rig;
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FabricContract, ::testing::Values(RigMaker{"nccl", make_rig}),
                         [](const auto& info) { return std::string(info.param.name); });

class NcclFabricTest : public ::testing::Test {
 protected:
  int rank() const { return rig.control->rank(); }
  int ranks() const { return rig.control->ranks(); }
  std::vector<int> all(bool with_self) const {
    std::vector<int> out;
    for (int r = 0; r < ranks(); ++r) {
      if (with_self || r != rank()) out.push_back(r);
    }
    return out;
  }

  void wait(Fabric::Ticket ticket) {
    wait_until(*rig.control, [&] { return fabric.finished(ticket).has_value(); });
  }

  Rig rig = make_rig();
  Fabric& fabric = *rig.fabric;
};

TEST_F(NcclFabricTest, NamesItsVersion) {
  EXPECT_THAT(fabric.description(), StartsWith("nccl 2."));
  nccl::check_versions(*rig.control);
}

TEST_F(NcclFabricTest, MeasuresWhatNcclTakes) {
  fabric.connect({all(true)}, all(false));
  EXPECT_EQ(fabric.own_bytes() > 0, ranks() > 1);
}

TEST_F(NcclFabricTest, TakesNothingWhereNobodyTransfers) {
  fabric.connect({{rank()}, {rank()}}, {});
  EXPECT_EQ(fabric.own_bytes(), 0u);
  wait(fabric.start());
}

// Everyone waits for what nobody sends.
TEST_F(NcclFabricTest, GivesUpTransfersThatNobodyAnswers) {
  auto memory = rig.device->allocate(64, "test");
  fabric.connect({all(true)}, all(false));
  for (int peer : all(false)) fabric.receive(peer, memory->data() + peer, 1);
  Fabric::Ticket ticket = fabric.start();
  if (ranks() == 1) wait(ticket);  // nobody to wait for
  for (int i = 0; i < 20 && ranks() > 1; ++i) EXPECT_FALSE(fabric.finished(ticket).has_value());
  rig.control->barrier();
  EXPECT_TRUE(fabric.abort());
  EXPECT_TRUE(fabric.abort());  // again: nothing is left
}

TEST_F(NcclFabricTest, HasRoomForSoManySets) {
  fabric.connect({}, {});
  std::vector<Fabric::Ticket> tickets;
  for (std::size_t i = 0; i < NcclFabric::kMostSets; ++i) tickets.push_back(fabric.start());
  EXPECT_THROW(fabric.start(), Error);
  for (Fabric::Ticket ticket : tickets) wait(ticket);
}

TEST_F(NcclFabricTest, SetsAreAskedForInTheirOrder) {
  fabric.connect({}, {});
  EXPECT_THROW(fabric.finished(0), Error);
  Fabric::Ticket first = fabric.start();
  Fabric::Ticket second = fabric.start();
  EXPECT_THROW(fabric.finished(second), Error);
  wait(first);
  wait(second);
  EXPECT_THROW(fabric.finished(second), Error);
}

TEST_F(NcclFabricTest, RefusesTransfersBeforeItIsConnected) {
  EXPECT_THROW(fabric.send(0, nullptr, 1), Error);
  EXPECT_THROW(fabric.start(), Error);
}

}  // namespace
}  // namespace slabload::testing
