#include "backend/cuda/handle.h"

#include <algorithm>

#include "backend/cuda/call.h"

namespace slabload::cuda {

Stream make_stream(const std::string& where) {
  cudaStream_t stream = nullptr;
  SLABLOAD_CUDA_CALL(where, cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
  return Stream(stream);
}

Event make_event(bool with_timing, const std::string& where) {
  cudaEvent_t event = nullptr;
  SLABLOAD_CUDA_CALL(where, cudaEventCreateWithFlags, &event,
                     with_timing ? cudaEventDefault : cudaEventDisableTiming);
  return Event(event);
}

bool has_passed(const Event& event, const std::string& where) {
  CallName scope("cudaEventQuery");
  cudaError_t code = cudaEventQuery(event.get());
  if (code == cudaErrorNotReady) return false;
  if (code != cudaSuccess) fail_call(code, "cudaEventQuery", where);
  return true;
}

GpuMemory::GpuMemory(std::byte* data, std::uint64_t bytes, std::shared_ptr<Usage> usage)
    : data_(data), size_(bytes), usage_(std::move(usage)) {
  usage_->now += bytes;
  usage_->peak = std::max(usage_->peak, usage_->now);
}

GpuMemory::~GpuMemory() {
  CallName scope("cudaFree");
  if (data_ != nullptr && !usage_->abandoned) (void)cudaFree(data_);
  usage_->now -= size_;
}

PinnedMemory::~PinnedMemory() {
  CallName scope("cudaFreeHost");
  if (data_ != nullptr && !usage_->abandoned) (void)cudaFreeHost(data_);
}

}  // namespace slabload::cuda
