// CUDA streams, events and memory as move-only objects. Destructors ignore the codes: after an error that
// sticks every call gives it again, and there is nothing left to be done about it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "backend/device.h"
#include "base/current_call.h"

namespace slabload::cuda {

// Calls `release`, which is called `name`, on the handle at the end; a null handle is none.
template <typename Handle, cudaError_t (*release)(Handle), const char* name>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ == nullptr) return;
    CallName scope(name);
    (void)release(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

inline constexpr char kStreamDestroy[] = "cudaStreamDestroy";
inline constexpr char kEventDestroy[] = "cudaEventDestroy";
using Stream = Owned<cudaStream_t, cudaStreamDestroy, kStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy, kEventDestroy>;

// `where` is for the Error that a failure throws. A stream doesn't wait for the default stream.
Stream make_stream(const std::string& where);
Event make_event(bool with_timing, const std::string& where);
// True once what was recorded has passed.
bool has_passed(const Event& event, const std::string& where);

// How much memory of the device is out, and the most that was at once.
struct Usage {
  std::uint64_t now = 0;
  std::uint64_t peak = 0;
  bool abandoned = false;  // nothing is freed any more, pinned memory neither
};

// Memory of the current device, or pinned memory of the host. They take over `data`, which may be null for no
// bytes.
class GpuMemory final : public DeviceMemory {
 public:
  GpuMemory(std::byte* data, std::uint64_t bytes, std::shared_ptr<Usage> usage);
  ~GpuMemory() override;
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  std::byte* data() const override { return data_; }
  std::uint64_t size() const override { return size_; }

 private:
  std::byte* data_;
  std::uint64_t size_;
  std::shared_ptr<Usage> usage_;
};

class PinnedMemory final : public DeviceMemory {
 public:
  PinnedMemory(std::byte* data, std::uint64_t bytes, std::shared_ptr<Usage> usage)
      : data_(data), size_(bytes), usage_(std::move(usage)) {}
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const override { return data_; }
  std::uint64_t size() const override { return size_; }

 private:
  std::byte* data_;
  std::uint64_t size_;
  std::shared_ptr<Usage> usage_;
};

}  // namespace slabload::cuda
