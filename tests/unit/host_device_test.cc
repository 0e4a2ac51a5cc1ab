// The host as a device: memory, and copies of boxes compared with copying element by element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/host/device.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::mix64;
using slabload::testing::Random;
using slabload::testing::thrown_error;

std::string content(std::uint64_t size, std::uint64_t seed) {
  std::string out;
  for (std::uint64_t i = 0; i < size; ++i) out += static_cast<char>(mix64(seed * 77777 + i));
  return out;
}

// Every coordinate of the box, moved from its place in `from_box` to its place in `to_box`.
void copy_plainly(std::uint64_t size, const Box& box, const std::string& from, const Box& from_box,
                  std::string& to, const Box& to_box) {
  std::uint64_t count = 1;
  for (std::uint64_t e : box.extent) count *= e;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t rest = i, source = 0, target = 0, source_stride = 1, target_stride = 1;
    for (std::size_t d = box.extent.size(); d-- > 0; rest /= box.extent[d]) {
      std::uint64_t at = box.start[d] + rest % box.extent[d];
      source += (at - from_box.start[d]) * source_stride;
      target += (at - to_box.start[d]) * target_stride;
      source_stride *= from_box.extent[d];
      target_stride *= to_box.extent[d];
    }
    to.replace(target * size, size, from, source * size, size);
  }
}

// A box that holds `inner`, often exactly in some dimensions.
Box around(Random& random, const Box& inner) {
  Box out = inner;
  for (std::size_t d = 0; d < inner.ndim(); ++d) {
    if (random.one_in(2)) continue;
    std::uint64_t before = random.below(inner.start[d] + 1);
    out.start[d] -= before;
    out.extent[d] += before + random.below(3);
  }
  return out;
}

TEST(HostDevice, CopiesRandomBoxes) {
  host::HostDevice device;
  Random random(8);
  for (int i = 0; i < 3000; ++i) {
    Box box;
    for (std::uint64_t d = random.below(6); d > 0; --d) {
      box.start.push_back(random.below(4));
      box.extent.push_back(random.one_in(25) ? 0 : 1 + random.below(4));
    }
    Box from_box = around(random, box), to_box = around(random, box);
    std::uint32_t size = random.of<std::uint32_t>({1, 2, 4, 8});
    std::string from = content(from_box.elements() * size, static_cast<std::uint64_t>(i));
    std::string to(to_box.elements() * size, '\x5a');
    std::string want = to;
    if (!box.empty()) copy_plainly(size, box, from, from_box, want, to_box);
    std::string before = from;
    device.copy_box(size, box, reinterpret_cast<const std::byte*>(from.data()), from_box,
                    reinterpret_cast<std::byte*>(to.data()), to_box);
    ASSERT_EQ(to, want) << box.text() << " from " << from_box.text() << " to " << to_box.text();
    ASSERT_EQ(from, before);
  }
}

TEST(HostDevice, GivesMemoryOfAnySize) {
  host::HostDevice device;
  for (std::uint64_t size : {0u, 1u, 4095u, 4096u, (2u << 20) - 1, 5u << 20}) {
    auto memory = device.allocate(size, "a test");
    EXPECT_EQ(memory->size(), size);
    if (size == 0) continue;
    ASSERT_NE(memory->data(), nullptr);
    std::memset(memory->data(), 0x77, size);
    EXPECT_EQ(static_cast<int>(memory->data()[size - 1]), 0x77);
  }
}

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
  std::string pattern = content(3 << 20, 1);
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
}  // namespace slabload
