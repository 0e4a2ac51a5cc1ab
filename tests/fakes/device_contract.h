// What every Device promises, as tests that run over the host, the double of CUDA and a real GPU. A test
// program names its devices: INSTANTIATE_TYPED_TEST_SUITE_P(Host, DeviceContract, MakesHostDevice), where
// MakesHostDevice::make() gives a fresh device that has been warmed up.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "fakes/plain_box.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"
#include "tensor/cast.h"
#include "unit/thrown_error.h"

namespace slabload::testing {

template <typename Maker>
class DeviceContract : public ::testing::Test {
 protected:
  // Asks until the mark has passed, as a loader does.
  double wait(Mark mark) {
    for (;;) {
      if (std::optional<double> at = device_->passed(mark)) return *at;
    }
  }
  void wait() { wait(device_->mark()); }

  std::unique_ptr<DeviceMemory> staging(const std::string& bytes) {
    auto memory = device_->allocate_staging(bytes.size(), "a test");
    if (!bytes.empty()) std::memcpy(memory->data(), bytes.data(), bytes.size());
    return memory;
  }
  // Device memory that holds these bytes from `offset` on.
  std::unique_ptr<DeviceMemory> on_device(const std::string& bytes, std::uint64_t offset = 0) {
    auto memory = device_->allocate(offset + bytes.size(), "a test");
    auto host = staging(std::string(offset, '\x5a') + bytes);
    device_->copy_in(host->data(), memory->data(), offset + bytes.size());
    wait();
    return memory;
  }
  std::string from_device(const std::byte* data, std::uint64_t size) {
    auto host = device_->allocate_staging(size, "a test");
    device_->copy_out(data, host->data(), size);
    wait();
    return {reinterpret_cast<const char*>(host->data()), size};
  }
  std::uint64_t checksum(const Shape& shape, const Box& box, std::uint32_t size, const std::byte* data) {
    auto sum = device_->allocate(8, "a test");
    device_->checksum_box(shape, box, size, data, sum->data());
    std::string bytes = from_device(sum->data(), 8);
    std::uint64_t value;
    std::memcpy(&value, bytes.data(), 8);
    return value;
  }

  std::unique_ptr<Device> device_ = Maker::make();
};

TYPED_TEST_SUITE_P(DeviceContract);

TYPED_TEST_P(DeviceContract, GivesAlignedMemoryOfAnySize) {
  for (std::uint64_t size : {0u, 1u, 255u, 4096u, 5u << 20}) {
    auto memory = this->device_->allocate(size, "a test");
    auto host = this->device_->allocate_staging(size, "a test");
    EXPECT_EQ(memory->size(), size);
    EXPECT_EQ(host->size(), size);
    if (size == 0) continue;
    ASSERT_NE(memory->data(), nullptr);
    ASSERT_NE(host->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 256, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(host->data()) % 4096, 0u);
    std::memset(host->data(), 0x77, size);
    EXPECT_EQ(static_cast<int>(host->data()[size - 1]), 0x77);
  }
}

TYPED_TEST_P(DeviceContract, RefusesMoreMemoryThanThereIs) {
  Error error = thrown_error([&] { this->device_->allocate(std::uint64_t{1} << 60, "the shards"); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), ::testing::HasSubstr("the shards"));
  // Nothing is broken by it.
  std::string bytes = random_bytes(1000, 1);
  auto memory = this->on_device(bytes);
  EXPECT_EQ(this->from_device(memory->data(), bytes.size()), bytes);
}

TYPED_TEST_P(DeviceContract, PreparesFreshMemory) {
  auto memory = this->device_->allocate(100000, "a test");
  this->device_->prepare(memory->data(), memory->size());
  auto host = this->staging(random_bytes(100000, 2));
  this->device_->copy_in(host->data(), memory->data(), memory->size());
  this->wait();
  EXPECT_EQ(this->from_device(memory->data(), memory->size()), random_bytes(100000, 2));
}

TYPED_TEST_P(DeviceContract, CopiesInAndOutAtAnyOffset) {
  for (std::uint64_t size : {1u, 7u, 4097u, 1u << 20}) {
    std::string bytes = random_bytes(size, size);
    for (std::uint64_t offset : {0u, 1u, 8u, 255u}) {
      auto memory = this->on_device(bytes, offset);
      EXPECT_EQ(this->from_device(memory->data() + offset, size), bytes);
    }
  }
  // No bytes are no error, wherever they would lie.
  this->device_->copy_in(nullptr, nullptr, 0);
  this->device_->copy_out(nullptr, nullptr, 0);
  this->wait();
}

// What is behind in the queue sees what is before it, without a mark between them.
TYPED_TEST_P(DeviceContract, RunsItsQueueInOrder) {
  constexpr std::uint64_t kSize = 1000;
  std::string first = random_bytes(kSize, 3), second = random_bytes(kSize / 2, 4);
  auto a = this->staging(first), b = this->staging(second);
  auto out = this->device_->allocate_staging(2 * kSize, "a test");
  auto memory = this->device_->allocate(2 * kSize, "a test");
  Box whole{{0}, {kSize}};
  this->device_->copy_in(a->data(), memory->data(), kSize);
  this->device_->copy_in(b->data(), memory->data() + 100, kSize / 2);
  this->device_->copy_box(1, whole, memory->data(), whole, memory->data() + kSize, whole);
  this->device_->copy_in(a->data(), memory->data(), kSize);
  this->device_->copy_out(memory->data(), out->data(), 2 * kSize);
  this->wait();
  std::string patched = first;
  patched.replace(100, kSize / 2, second);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out->data()), 2 * kSize), first + patched);
}

// Two slots are filled in turn, each as soon as its mark has passed.
TYPED_TEST_P(DeviceContract, MarksSayWhenASlotIsFree) {
  constexpr std::uint64_t kSlot = 10000, kRounds = 150;
  auto slots = this->device_->allocate_staging(2 * kSlot, "a test");
  auto memory = this->device_->allocate(kRounds * kSlot, "a test");
  std::string want;
  Mark marks[2] = {};
  double last = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    std::byte* slot = slots->data() + round % 2 * kSlot;
    if (round >= 2) {
      double at = this->wait(marks[round % 2]);
      EXPECT_GE(at, last);
      last = at;
    }
    std::string bytes = random_bytes(kSlot, round);
    std::memcpy(slot, bytes.data(), kSlot);
    want += bytes;
    this->device_->copy_in(slot, memory->data() + round * kSlot, kSlot);
    marks[round % 2] = this->device_->mark();
  }
  this->wait();
  EXPECT_EQ(this->from_device(memory->data(), want.size()), want);
}

TYPED_TEST_P(DeviceContract, MarksCanBeAskedAgain) {
  Mark first = this->device_->mark();
  double at = this->wait(first);
  std::vector<Mark> younger;
  for (int i = 0; i < 64; ++i) younger.push_back(this->device_->mark());
  EXPECT_TRUE(this->device_->passed(first).has_value());
  for (Mark mark : younger) {
    double next = this->wait(mark);
    EXPECT_GE(next, at);
    at = next;
  }
  // Once a mark has passed, so have all before it.
  EXPECT_TRUE(this->device_->passed(younger.front()).has_value());
  // One that was never made, and one that is too old, are faults of the caller.
  EXPECT_EQ(thrown_error([&] { this->device_->passed(younger.back() + 1); }).status(), Status::internal);
  for (int i = 0; i < 200; ++i) this->device_->mark();
  EXPECT_EQ(thrown_error([&] { this->device_->passed(first); }).status(), Status::internal);
  this->wait();
}

// Every pattern of the small types, random ones of the large, at offsets that fit the type and at odd ones.
// tensor/cast.h's function has tests of its own.
TYPED_TEST_P(DeviceContract, CastsAsTheHostDoes) {
  for (DType from : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2}) {
    std::uint64_t size = dtype_size(from);
    std::string bytes;
    if (size <= 2) {
      for (std::uint64_t i = 0; i < std::uint64_t{1} << (8 * size); ++i) append_bits(bytes, i, size);
    } else {
      bytes = random_bytes(size * 20011, size);
    }
    std::uint64_t count = bytes.size() / size;
    for (DType to : {DType::f32, DType::f16, DType::bf16}) {
      std::uint64_t to_size = dtype_size(to);
      std::string want(count * to_size, '\0');
      cast_elements(from, to, bytes.data(), count, want.data());
      for (std::uint64_t offset : {0u, 1u, 2u, 4u}) {
        auto in = this->on_device(bytes, offset);
        std::uint64_t target = (offset * 3) % 8;
        auto out = this->on_device(std::string(want.size() + 8, '\x5a'), target);
        this->device_->cast(from, to, in->data() + offset, count, out->data() + target);
        std::string got = this->from_device(out->data() + target, want.size() + 8);
        EXPECT_TRUE(got.substr(0, want.size()) == want) << dtype_name(from) << " to " << dtype_name(to);
        EXPECT_EQ(got.substr(want.size()), std::string(8, '\x5a'));
      }
    }
  }
  this->device_->cast(DType::f32, DType::bf16, nullptr, 0, nullptr);
  this->wait();
}

TYPED_TEST_P(DeviceContract, CastsFewElements) {
  for (std::uint64_t count : {1u, 2u, 31u, 33u, 257u}) {
    std::string bytes = random_bytes(count * 4, count), want(count * 2, '\0');
    cast_elements(DType::f32, DType::bf16, bytes.data(), count, want.data());
    auto in = this->on_device(bytes);
    auto out = this->device_->allocate(want.size(), "a test");
    this->device_->cast(DType::f32, DType::bf16, in->data(), count, out->data());
    EXPECT_EQ(this->from_device(out->data(), want.size()), want);
  }
}

TYPED_TEST_P(DeviceContract, CopiesRandomBoxes) {
  Random random(8);
  for (int i = 0; i < 300; ++i) {
    BoxCopy c = random_box_copy(random);
    std::uint32_t size = random.of<std::uint32_t>({1, 2, 4, 8});
    std::string from = random_bytes(c.from_box.elements() * size, static_cast<std::uint64_t>(i));
    std::string want(c.to_box.elements() * size, '\x5a');
    std::uint64_t offset = random.of<std::uint64_t>({0, 8, 256, 3});
    auto source = this->on_device(from, offset);
    auto target = this->on_device(want, offset);
    copy_plainly(size, c.box, from, c.from_box, want, c.to_box);
    this->device_->copy_box(size, c.box, source->data() + offset, c.from_box, target->data() + offset,
                            c.to_box);
    ASSERT_EQ(this->from_device(target->data() + offset, want.size()), want)
        << c.box.text() << " from " << c.from_box.text() << " to " << c.to_box.text();
    ASSERT_EQ(this->from_device(source->data() + offset, from.size()), from);
  }
}

TYPED_TEST_P(DeviceContract, CopiesBoxesOfManyDimensions) {
  Box box, from_box, to_box;
  for (int d = 0; d < 32; ++d) {
    std::uint64_t extent = d % 4 == 0 ? 2 : 1;
    box.start.push_back(1);
    box.extent.push_back(extent);
    from_box.start.push_back(1);
    from_box.extent.push_back(d % 8 == 0 ? extent + 1 : extent);
    to_box.start.push_back(d % 8 == 4 ? 0 : 1);
    to_box.extent.push_back(d % 8 == 4 ? extent + 1 : extent);
  }
  std::string from = random_bytes(from_box.elements() * 2, 5), want(to_box.elements() * 2, '\x5a');
  auto source = this->on_device(from), target = this->on_device(want);
  copy_plainly(2, box, from, from_box, want, to_box);
  this->device_->copy_box(2, box, source->data(), from_box, target->data(), to_box);
  EXPECT_EQ(this->from_device(target->data(), want.size()), want);
}

TYPED_TEST_P(DeviceContract, ChecksumsOfRandomBoxes) {
  Random random(9);
  for (int i = 0; i < 200; ++i) {
    BoxCopy c = random_box_copy(random);
    Shape shape;
    for (std::size_t d = 0; d < c.box.ndim(); ++d)
      shape.lengths().push_back(c.box.start[d] + c.box.extent[d] + random.below(3));
    std::uint32_t size = random.of<std::uint32_t>({1, 2, 4, 8});
    std::string bytes = random_bytes(c.box.elements() * size, static_cast<std::uint64_t>(i));
    std::uint64_t offset = random.of<std::uint64_t>({0, 8, 256, 3});
    auto data = this->on_device(bytes, offset);
    ASSERT_EQ(this->checksum(shape, c.box, size, data->data() + offset),
              plain_checksum(shape, c.box, size, bytes))
        << c.box.text() << " of " << shape.text() << " x " << size;
  }
}

// Large enough for many threads, in the shapes that shards have.
TYPED_TEST_P(DeviceContract, ChecksumsOfShards) {
  struct {
    Shape shape;
    Box box;
  } cases[] = {
      {{300, 700}, {{0, 0}, {300, 700}}},              // all of it
      {{300, 700}, {{100, 0}, {100, 700}}},            // rows
      {{300, 700}, {{0, 233}, {300, 234}}},            // columns
      {{3, 200, 333}, {{1, 50, 111}, {2, 100, 111}}},  // rows and columns of some experts
      {{60000, 3}, {{0, 1}, {60000, 1}}},              // one short column
      {{200001}, {{77}, {199000}}},
  };
  for (auto& [shape, box] : cases) {
    for (std::uint32_t size : {1u, 2u}) {
      std::string bytes = random_bytes(box.elements() * size, box.elements());
      auto data = this->on_device(bytes);
      EXPECT_EQ(this->checksum(shape, box, size, data->data()), plain_checksum(shape, box, size, bytes))
          << box.text() << " of " << shape.text() << " x " << size;
    }
  }
}

// The sum's memory may hold anything before, and a box of nothing sums up to nothing.
TYPED_TEST_P(DeviceContract, ChecksumsAreWrittenAnew) {
  std::string bytes = random_bytes(64, 6);
  auto data = this->on_device(bytes);
  auto sum = this->on_device(std::string(8, '\xff'));
  Box whole{{0}, {64}}, nothing{{0}, {0}};
  std::string want;
  append_bits(want, plain_checksum(Shape{64}, whole, 1, bytes), 8);
  for (int i = 0; i < 2; ++i) {
    this->device_->checksum_box(Shape{64}, whole, 1, data->data(), sum->data());
    EXPECT_EQ(this->from_device(sum->data(), 8), want);
  }
  this->device_->checksum_box(Shape{64}, nothing, 1, data->data(), sum->data());
  EXPECT_EQ(this->from_device(sum->data(), 8), std::string(8, '\0'));
}

TYPED_TEST_P(DeviceContract, SaysWhatItIs) {
  EXPECT_FALSE(this->device_->description().empty());
}

REGISTER_TYPED_TEST_SUITE_P(DeviceContract, GivesAlignedMemoryOfAnySize, RefusesMoreMemoryThanThereIs,
                            PreparesFreshMemory, CopiesInAndOutAtAnyOffset, RunsItsQueueInOrder,
                            MarksSayWhenASlotIsFree, MarksCanBeAskedAgain, CastsAsTheHostDoes,
                            CastsFewElements, CopiesRandomBoxes, CopiesBoxesOfManyDimensions,
                            ChecksumsOfRandomBoxes, ChecksumsOfShards, ChecksumsAreWrittenAnew, SaysWhatItIs);

}  // namespace slabload::testing
