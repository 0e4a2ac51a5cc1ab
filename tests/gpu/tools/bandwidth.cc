// bandwidth BYTES pinned|pageable: how fast BYTES go from host memory to the GPU through a ring of slots, as
// a load sends them: one stream, an event per slot, and a slot is used again when its event has passed. A
// line of JSON for each number of slots, with the rates for each size of slot.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/stopwatch.h"
#include "gpu/tools/tool.h"

namespace slabload::testing {
namespace {

constexpr std::uint64_t kSlotBytes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 64 << 20};
constexpr std::uint64_t kSlots[] = {1, 2, 3, 4, 8};
constexpr std::uint64_t kMostSlot = 64 << 20;
constexpr std::uint64_t kMostSlots = 8;

std::unique_ptr<DeviceMemory> device_memory(std::uint64_t bytes) {
  void* data = nullptr;
  SLABLOAD_CUDA_CALL("the target", cudaMalloc, &data, bytes);
  return std::make_unique<cuda::GpuMemory>(static_cast<std::byte*>(data), bytes,
                                           std::make_shared<cuda::Usage>());
}

std::unique_ptr<DeviceMemory> pinned_memory(std::uint64_t bytes) {
  void* data = nullptr;
  SLABLOAD_CUDA_CALL("the slots", cudaHostAlloc, &data, bytes, cudaHostAllocDefault);
  return std::make_unique<cuda::PinnedMemory>(static_cast<std::byte*>(data), bytes,
                                              std::make_shared<cuda::Usage>());
}

class Ring {
 public:
  Ring(std::uint64_t bytes, std::byte* target) : bytes_(bytes), target_(target) {
    for (std::uint64_t i = 0; i < kMostSlots; ++i) events_.push_back(cuda::make_event(false, "a slot"));
  }

  // Bytes per second.
  double rate(const std::byte* slots, std::uint64_t count, std::uint64_t slot_bytes) {
    run(slots, count, slot_bytes, count * slot_bytes);  // the first use of pages
    Stopwatch watch;
    run(slots, count, slot_bytes, bytes_);
    return static_cast<double>(bytes_) / watch.seconds();
  }

 private:
  void run(const std::byte* slots, std::uint64_t count, std::uint64_t slot_bytes, std::uint64_t bytes) {
    std::uint64_t turns = bytes / slot_bytes;
    for (std::uint64_t i = 0; i < turns; ++i) {
      const cuda::Event& event = events_[i % count];
      if (i >= count) wait_for(event);
      // The target is shorter than all that is sent.
      SLABLOAD_CUDA_CALL("a slot", cudaMemcpyAsync, target_ + i % kMostSlots * slot_bytes,
                         slots + i % count * slot_bytes, slot_bytes, cudaMemcpyHostToDevice, stream_.get());
      SLABLOAD_CUDA_CALL("a slot", cudaEventRecord, event.get(), stream_.get());
    }
    for (std::uint64_t i = 0; i < std::min(count, turns); ++i) wait_for(events_[i]);
  }

  std::uint64_t bytes_;
  std::byte* target_;
  cuda::Stream stream_ = cuda::make_stream("the measurement");
  std::vector<cuda::Event> events_;
};

int measure(std::uint64_t bytes, bool is_pinned) {
  if (bytes < kMostSlot) fail(Status::usage, "at least {} bytes are to be sent", kMostSlot);
  SLABLOAD_CUDA_CALL("the first GPU", cudaSetDevice, 0);
  auto target = device_memory(kMostSlots * kMostSlot);
  auto pinned = pinned_memory(is_pinned ? kMostSlots * kMostSlot : 1);
  std::vector<std::byte> pageable(is_pinned ? 0 : kMostSlots * kMostSlot);
  std::byte* slots = is_pinned ? pinned->data() : pageable.data();
  std::memset(slots, 1, kMostSlots * kMostSlot);
  Ring ring(bytes, target->data());
  for (std::uint64_t count : kSlots) {
    std::vector<double> rates;
    for (std::uint64_t size : kSlotBytes) rates.push_back(ring.rate(slots, count, size) / 1e9);
    print_line(fmt::format(R"({{"memory":"{}","slots":{},"slot_bytes":[{}],"gb_per_s":[{:.4g}]}})",
                           is_pinned ? "pinned" : "pageable", count, fmt::join(kSlotBytes, ","),
                           fmt::join(rates, ",")));
  }
  return 0;
}

}  // namespace
}  // namespace slabload::testing

int main(int argc, char** argv) {
  using namespace slabload::testing;  // NOLINT: this is its program
  return tool_main("bandwidth", [&] {
    std::string_view memory = argc == 3 ? argv[2] : "";
    if (memory != "pinned" && memory != "pageable")
      slabload::fail(slabload::Status::usage, "usage: bandwidth BYTES pinned|pageable");
    return measure(number_argument(argv[1], "BYTES"), memory == "pinned");
  });
}
