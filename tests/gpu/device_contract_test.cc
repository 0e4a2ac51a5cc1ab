// A GPU as a device, with the double of CUDA or a real one: what every device promises, and what only this
// one does.
#include "fakes/device_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/device.h"
#include "backend/cuda/probe.h"
#include "base/bytes.h"
#include "gpu/ordinal.h"

namespace slabload::testing {
namespace {

struct MakesCudaDevice {
  static std::unique_ptr<Device> make() {
    auto device = std::make_unique<cuda::CudaDevice>(gpu_ordinal());
    device->warm_up();
    return device;
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, DeviceContract, MakesCudaDevice);

TEST(CudaDevice, CountsTheMostThatWasOut) {
  cuda::CudaDevice device(gpu_ordinal());
  device.warm_up();
  std::uint64_t before = device.peak_bytes();
  auto kept = device.allocate(3 << 20, "a test");
  { auto passing = device.allocate(5 << 20, "a test"); }
  auto last = device.allocate(1 << 20, "a test");
  EXPECT_EQ(device.peak_bytes(), std::max<std::uint64_t>(before, 8 << 20));
}

TEST(CudaDevice, RefusalNamesTheGpuAndWhatIsLacking) {
  cuda::CudaDevice device(gpu_ordinal());
  auto have = device.memory();
  EXPECT_LE(have.free, have.total);
  EXPECT_GT(have.free, 0u);
  Error error = thrown_error([&] { device.allocate(2 * have.total, "the shards"); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), ::testing::StartsWith("the shards: " + device.name() + " has "));
  EXPECT_THAT(error.message(), ::testing::HasSubstr(" of " + format_bytes(have.total) + ", "));
  EXPECT_THAT(error.message(), ::testing::ContainsRegex("lacks [0-9]+ bytes"));
  EXPECT_THAT(device.name(), ::testing::StartsWith(fmt::format("GPU {} (", gpu_ordinal())));
}

// Another stream's copy comes behind what the queue holds, and may be waited for by its own event.
TEST(CudaDevice, OrdersAnotherStreamBehindItsQueue) {
  constexpr std::uint64_t kSize = 1 << 20;
  cuda::CudaDevice device(gpu_ordinal());
  device.warm_up();
  cuda::Stream other = cuda::make_stream("a test");
  cuda::Event done = cuda::make_event(true, "a test");
  auto host = device.allocate_staging(kSize, "a test");
  auto out = device.allocate_staging(kSize, "a test");
  auto memory = device.allocate(kSize, "a test");
  for (std::uint64_t round = 0; round < 5; ++round) {
    std::string bytes = random_bytes(kSize, round);
    std::memcpy(host->data(), bytes.data(), kSize);
    device.copy_in(host->data(), memory->data(), kSize);
    device.order_before(other.get());
    ASSERT_EQ(cudaMemcpyAsync(out->data(), memory->data(), kSize, cudaMemcpyDeviceToHost, other.get()),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(done.get(), other.get()), cudaSuccess);
    while (!device.passed(done)) {
    }
    EXPECT_EQ(std::memcmp(out->data(), bytes.data(), kSize), 0);
  }
}

TEST(CudaDevice, RefusesAnOrdinalThatIsNone) {
  Error error = thrown_error([] { cuda::CudaDevice device(1000); });
  EXPECT_EQ(error.status(), Status::peer);
  EXPECT_THAT(error.message(), ::testing::AllOf(::testing::HasSubstr("cudaSetDevice: "),
                                                ::testing::HasSubstr("(cudaErrorInvalidDevice)"),
                                                ::testing::HasSubstr("GPU 1000")));
}

TEST(CudaProbe, ListsTheGpus) {
  cuda::GpuProbe probe = cuda::probe();
  EXPECT_TRUE(probe.usable()) << probe.unusable;
  EXPECT_GE(probe.driver_version / 1000, probe.runtime_version / 1000);
  ASSERT_FALSE(probe.gpus.empty());
  for (const cuda::Gpu& gpu : probe.gpus) {
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GT(gpu.bytes, 0u);
    EXPECT_THAT(gpu.pci_bus_id, ::testing::ContainsRegex("^[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\\.[0-9]$"));
  }
  EXPECT_EQ(cuda::version_text(12020), "12.2");
  EXPECT_EQ(cuda::version_text(13000), "13.0");
}

}  // namespace
}  // namespace slabload::testing
