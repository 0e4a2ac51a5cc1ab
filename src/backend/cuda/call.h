// CUDA calls checked: a code that is not cudaSuccess becomes an Error with the call's name and the library's
// text.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/current_call.h"
#include "base/error.h"

namespace slabload::cuda {

// Throws Status::peer "CALL: text (cudaErrorName) [where]", and takes the code from what cudaGetLastError
// holds.
[[noreturn]] void fail_call(cudaError_t code, const char* call, const std::string& where);

}  // namespace slabload::cuda

// SLABLOAD_CUDA_CALL(where, cudaMemsetAsync, data, 0, bytes, stream) calls and checks; the call's name is
// current_call() meanwhile. `where` is a string that is made only if the call fails.
#define SLABLOAD_CUDA_CALL(where, function, ...) SLABLOAD_CUDA_NAMED(where, #function, function(__VA_ARGS__))

// The same for an expression that makes the call `name`, a string literal.
#define SLABLOAD_CUDA_NAMED(where, name, call)                                                 \
  do {                                                                                         \
    cudaError_t slabload_code;                                                                 \
    {                                                                                          \
      ::slabload::CallName slabload_scope(name);                                               \
      slabload_code = (call);                                                                  \
    }                                                                                          \
    if (slabload_code != cudaSuccess) ::slabload::cuda::fail_call(slabload_code, name, where); \
  } while (false)
