// What lets one function body run on the host and in a kernel.
#pragma once

#include <cstdint>

// Before a function that both the host's compiler and nvcc are to compile; nothing to the host's.
#ifdef __CUDACC__
#define SLABLOAD_HD __host__ __device__
#else
#define SLABLOAD_HD
#endif

namespace slabload {

// The position of the highest bit that is set; value > 0.
SLABLOAD_HD inline int highest_bit(std::uint64_t value) {
#ifdef __CUDA_ARCH__
  return 63 - __clzll(static_cast<long long>(value));
#else
  return 63 - __builtin_clzll(value);
#endif
}

// a / b and a % b; GPUs have no 64-bit division, and most numbers are small.
struct Quotient {
  std::uint64_t whole;
  std::uint64_t rest;
};
SLABLOAD_HD inline Quotient divide(std::uint64_t a, std::uint64_t b) {
#ifdef __CUDA_ARCH__
  if (((a | b) >> 32) == 0) {
    auto low_a = static_cast<std::uint32_t>(a);
    auto low_b = static_cast<std::uint32_t>(b);
    return {low_a / low_b, low_a % low_b};
  }
#endif
  return {a / b, a % b};
}

}  // namespace slabload
