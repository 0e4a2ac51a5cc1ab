// What the cases use of CUDA and NCCL, freed as it should be.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <source_location>
#include <vector>

#include "ranks.h"

namespace doubles {

using Bytes = std::vector<std::byte>;

inline void need(bool holds, const char* what, std::source_location here = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "line %u: %s\n", static_cast<unsigned>(here.line()), what);
  _exit(1);
}
inline void check(cudaError_t result, std::source_location here = std::source_location::current()) {
  need(result == cudaSuccess, cudaGetErrorString(result), here);
}
inline void check(ncclResult_t result, std::source_location here = std::source_location::current()) {
  need(result == ncclSuccess, result == ncclSuccess ? "" : ncclGetLastError(nullptr), here);
}

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { check(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { check(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }
  void record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream)); }
  // As the product waits: by asking.
  void wait() const {
    cudaError_t state = cudaErrorNotReady;
    while ((state = cudaEventQuery(event_)) == cudaErrorNotReady) usleep(50);
    check(state);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) { check(cudaMalloc(&data_, bytes)); }
  ~Memory() { check(cudaFree(data_)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
  operator std::byte*() const { return at(0); }
  std::size_t bytes() const { return bytes_; }
  void write(std::size_t offset, const Bytes& bytes) const {
    check(cudaMemcpy(at(offset), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  }
  Bytes read(std::size_t offset, std::size_t bytes) const {
    Bytes out(bytes);
    check(cudaMemcpy(out.data(), at(offset), bytes, cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

inline ncclConfig_t config(bool blocking, bool share = false) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  config.splitShare = share;
  return config;
}

// Asks until a communicator is no longer in progress.
inline void settle(ncclComm_t comm, ncclResult_t first,
                   std::source_location here = std::source_location::current()) {
  need(first == ncclSuccess || first == ncclInProgress, "the call failed", here);
  ncclResult_t state = ncclInProgress;
  do {
    check(ncclCommGetAsyncError(comm, &state), here);
    if (state == ncclInProgress) usleep(50);
  } while (state == ncclInProgress);
  check(state, here);
}

// A communicator of all ranks.
class Comm {
 public:
  explicit Comm(World& world, ncclConfig_t with = config(true)) {
    const ncclUniqueId id = world.unique_id();
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, world.ranks, id, world.rank, &with);
    if (with.blocking == 0)
      settle(comm_, result);
    else
      check(result);
  }
  // Split from a blocking one.
  Comm(ncclComm_t parent, int color, int key) { check(ncclCommSplit(parent, color, key, &comm_, nullptr)); }
  ~Comm() {
    if (comm_) check(ncclCommDestroy(comm_));
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  operator ncclComm_t() const { return comm_; }
  void abort() {
    check(ncclCommAbort(comm_));
    comm_ = nullptr;
  }

 private:
  ncclComm_t comm_ = nullptr;
};

// Bytes that tell which rank and which place they come from.
inline Bytes pattern(int rank, std::size_t bytes, unsigned seed = 0) {
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    out[i] =
        static_cast<std::byte>((static_cast<std::size_t>(rank) + 1) * 37 + i * 7 + (i >> 8) * 3 + seed * 101);
  return out;
}

}  // namespace doubles
