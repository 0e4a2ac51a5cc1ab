// The contract of Fabric, kept by MpiFabric.
#include "backend/mpi/fabric.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include "backend/host/device.h"
#include "backend/mpi/control.h"
#include "fakes/fabric_contract.h"

namespace slabload::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Fabrics, FabricContract,
                         ::testing::Values(RigMaker{"mpi",
                                                    [] {
                                                      return Rig{
                                                          std::make_unique<mpi::MpiControl>(MPI_COMM_WORLD),
                                                          std::make_unique<host::HostDevice>(),
                                                          std::make_unique<mpi::MpiFabric>(MPI_COMM_WORLD)};
                                                    }}),
                         [](const auto& info) { return std::string(info.param.name); });

// So the loader ends the job instead.
TEST(MpiFabric, CannotTakeTransfersBack) {
  mpi::MpiFabric fabric(MPI_COMM_WORLD);
  EXPECT_FALSE(fabric.abort());
  EXPECT_EQ(fabric.own_bytes(), 0u);
}

}  // namespace
}  // namespace slabload::testing
