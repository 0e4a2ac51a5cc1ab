// Operations and kernels as the NCCL double and nvcc's stubs would put them in.
#pragma once

#include "case.h"
#include "fakes/cuda/hooks.h"

namespace doubles {

// An operation that ends when `*gate` is true.
inline int step_when_open(void* gate) {
  return *static_cast<bool*>(gate) ? 1 : 0;
}
inline int step_fails(void*) {
  return -1;
}

inline void nccl(cudaStream_t queue, const std::vector<FakeAccess>& accesses, bool* gate) {
  OK(HOOK(fakecuda_enqueue)(queue, "ncclAllGather", accesses.data(), static_cast<int>(accesses.size()),
                            step_when_open, nullptr, gate));
}

}  // namespace doubles

extern "C" {
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
}
