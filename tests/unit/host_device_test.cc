// The host as a device: what every device promises, and what only this one does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/host/device.h"
#include "fakes/device_contract.h"
#include "fakes/plain_box.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::DeviceContract;
using slabload::testing::random_bytes;
using slabload::testing::thrown_error;

struct MakesHostDevice {
  static std::unique_ptr<Device> make() { return std::make_unique<host::HostDevice>(); }
};

TEST(HostDevice, RefusesMoreMemoryThanAddressesReach) {
  host::HostDevice device;
  for (std::uint64_t size : {~std::uint64_t{0}, std::uint64_t{1} << 60}) {
    Error error = thrown_error([&] { device.allocate(size, "the shards"); });
    EXPECT_EQ(error.status(), Status::usage);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("the shards"));
  }
}

// Making memory present changes nothing in it, wherever it begins and ends.
TEST(HostDevice, PrepareLeavesTheBytesAlone) {
  host::HostDevice device;
  auto memory = device.allocate(3 << 20, "a test");
  std::string pattern = random_bytes(3 << 20, 1);
  std::memcpy(memory->data(), pattern.data(), pattern.size());
  for (std::uint64_t begin : {0u, 1u, 4095u, 4096u, 10000u}) {
    for (std::uint64_t size : {0u, 1u, 4096u, 8191u, 1u << 20}) device.prepare(memory->data() + begin, size);
  }
  EXPECT_EQ(std::memcmp(memory->data(), pattern.data(), pattern.size()), 0);
  // Fresh memory that was made present can be written to its last byte.
  auto fresh = device.allocate(100000, "a test");
  device.prepare(fresh->data(), fresh->size());
  std::memset(fresh->data(), 1, 100000);
  EXPECT_EQ(static_cast<int>(fresh->data()[99999]), 1);
  device.prepare(device.allocate(0, "nothing")->data(), 0);
}

TEST(HostDevice, CountsTheMostThatWasResident) {
  host::HostDevice device;
  constexpr std::uint64_t kSize = 24 << 20;
  std::uint64_t before = host::peak_resident_bytes();
  ASSERT_GT(before, 0u);
  {
    auto memory = device.allocate(kSize, "a test");
    std::memset(memory->data(), 1, kSize);
  }
  EXPECT_GE(host::peak_resident_bytes(), before);
  host::reset_peak_resident();
  std::uint64_t now = host::peak_resident_bytes();
  {
    auto memory = device.allocate(kSize, "a test");
    std::memset(memory->data(), 1, kSize);
  }
  // Pages of a library may come and go; the memory itself must show.
  EXPECT_GE(host::peak_resident_bytes(), now + kSize / 2);
}

}  // namespace

namespace testing {
INSTANTIATE_TYPED_TEST_SUITE_P(Host, DeviceContract, MakesHostDevice);
}  // namespace testing
}  // namespace slabload
