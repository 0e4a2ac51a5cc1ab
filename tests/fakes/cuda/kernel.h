// Kernels: what nvcc's stubs register, and what runs in their place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memory.h"
#include "order.h"

namespace fakecuda {

// The emulation of one kernel, found by a part of its mangled name.
struct FakeKernel {
  const char* name_part;
  // Called at the launch, while args are there. Fills in exactly what the kernel reads and writes, in
  // addresses of the product: too much of a read or too little of a write is reported as a fault of the
  // product. Returns what to do when the stream comes to it; that has copied its arguments and reaches device
  // memory by alias_of.
  std::function<void()> (*prepare)(dim3 grid, dim3 block, void** args, std::vector<Access>& accesses);
};

// The emulations of the product's kernels (kernels.cc).
const std::vector<FakeKernel>& product_kernels();

// Where this library itself may reach the device memory that the product knows by `address`.
template <typename T>
T* alias_of(T* address) {
  return reinterpret_cast<T*>(device_memory().arena().alias(reinterpret_cast<std::uint64_t>(address)));
}

// `bytes` bytes that begin at `address`.
inline Access reads(const void* address, std::uint64_t bytes) {
  return {{reinterpret_cast<std::uint64_t>(address), bytes, bytes, 1}, false};
}
inline Access writes(void* address, std::uint64_t bytes) {
  return {{reinterpret_cast<std::uint64_t>(address), bytes, bytes, 1}, true};
}
// Rows of `width` bytes that begin `pitch` bytes apart.
inline Access reads_rows(const void* address, std::uint64_t width, std::uint64_t pitch, std::uint64_t rows) {
  return {{reinterpret_cast<std::uint64_t>(address), width, pitch, rows}, false};
}
inline Access writes_rows(void* address, std::uint64_t width, std::uint64_t pitch, std::uint64_t rows) {
  return {{reinterpret_cast<std::uint64_t>(address), width, pitch, rows}, true};
}

// A function of the product that is a kernel.
struct Kernel {
  std::string name;  // mangled
  const FakeKernel* emulation = nullptr;
  bool loaded = false;
};

void register_kernel(const void* host_function, const char* name);
// Further emulations, for the double's own tests. Kept by address.
void add_emulation(const FakeKernel* emulation);
// Null for a function that is no kernel.
Kernel* kernel_of(const void* host_function);
// The first use loads a kernel, which must not happen beside NCCL. Ends the process for a kernel without an
// emulation.
void use_kernel(Kernel& kernel);

}  // namespace fakecuda
