// Memory and copies.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "api.h"
#include "copy.h"
#include "memory.h"
#include "pinned.h"
#include "segv.h"
#include "stream.h"

using namespace fakecuda;

namespace {

Region bytes_at(const void* address, std::size_t bytes) {
  return {number_of(address), bytes, bytes, 1};
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  FAKE_ENTER("cudaMalloc");
  forbid_while_nccl_pending("cudaMalloc");
  watch_faults();
  set_current_device(std::max(current_device(), 0));
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::uint64_t address = device_memory().allocate(bytes);
  if (address == 0) return result(cudaErrorMemoryAllocation);
  *memory = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  FAKE_ENTER("cudaFree");
  forbid_while_nccl_pending("cudaFree");
  if (memory) device_memory().free(number_of(memory));
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  FAKE_ENTER("cudaHostAlloc");
  forbid_while_nccl_pending("cudaHostAlloc");
  watch_faults();
  set_current_device(std::max(current_device(), 0));
  *memory = bytes == 0 ? nullptr : reinterpret_cast<void*>(pinned_memory().allocate(bytes));
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  FAKE_ENTER("cudaFreeHost");
  forbid_while_nccl_pending("cudaFreeHost");
  if (memory) pinned_memory().free(number_of(memory));
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FAKE_ENTER("cudaMemcpyAsync");
  copy(stream_of(stream, "cudaMemcpyAsync"), "cudaMemcpyAsync", bytes_at(to, bytes), bytes_at(from, bytes),
       kind);
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  FAKE_ENTER("cudaMemcpy2DAsync");
  copy(stream_of(stream, "cudaMemcpy2DAsync"), "cudaMemcpy2DAsync", {number_of(to), width, to_pitch, height},
       {number_of(from), width, from_pitch, height}, kind);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  FAKE_ENTER("cudaMemsetAsync");
  fill(stream_of(stream, "cudaMemsetAsync"), "cudaMemsetAsync", bytes_at(memory, bytes), value);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  FAKE_ENTER("cudaMemcpy");
  return result(copy_and_wait(to, from, bytes, kind));
}

}  // extern "C"
