// Kernels: registration by nvcc's stubs, launches.
#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "api.h"
#include "kernel.h"
#include "stream.h"
#include "violation.h"

using namespace fakecuda;

namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// Between __cudaPushCallConfiguration and the stub that takes it.
std::vector<Configuration>& configurations() {
  static auto* const kept = new std::vector<Configuration>;
  return *kept;
}

void check_size(const Kernel& kernel, dim3 grid, dim3 block) {
  const bool good = grid.x > 0 && grid.y > 0 && grid.z > 0 && block.x > 0 && block.y > 0 && block.z > 0 &&
                    grid.x <= 2147483647 && grid.y <= 65535 && grid.z <= 65535 && block.x <= 1024 &&
                    block.y <= 1024 && block.z <= 64 && block.x * block.y * block.z <= 1024;
  if (!good)
    violation("launch of %s with a grid of %u x %u x %u blocks of %u x %u x %u threads", kernel.name.c_str(),
              grid.x, grid.y, grid.z, block.x, block.y, block.z);
}

cudaError_t launch(Kernel* kernel, dim3 grid, dim3 block, void** args, cudaStream_t handle) {
  if (!kernel) return result(cudaErrorInvalidDeviceFunction);
  Stream& stream = stream_of(handle, "cudaLaunchKernel");
  check_size(*kernel, grid, block);
  use_kernel(*kernel);
  std::vector<Access> accesses;
  Operation operation;
  operation.step = [run = kernel->emulation->prepare(grid, block, args, accesses)] {
    run();
    return 1;
  };
  for (const Access& access : accesses)
    if (access.writes) device_memory().suspect(access.region.begin);
  enqueue(stream, "kernel " + kernel->name, accesses, std::move(operation));
  return cudaSuccess;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}

void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  register_kernel(host_function, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  if (configurations().empty()) return result(cudaErrorInvalidConfiguration);
  const Configuration last = configurations().back();
  configurations().pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

// The stubs keep the handle for ever.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  *kernel = reinterpret_cast<cudaKernel_t>(kernel_of(host_function));
  return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, std::size_t,
                               cudaStream_t stream) {
  FAKE_ENTER("cudaLaunchKernel");
  return launch(reinterpret_cast<Kernel*>(kernel), grid, block, args, stream);
}

cudaError_t cudaLaunchKernel(const void* host_function, dim3 grid, dim3 block, void** args, std::size_t,
                             cudaStream_t stream) {
  FAKE_ENTER("cudaLaunchKernel");
  return launch(kernel_of(host_function), grid, block, args, stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host_function) {
  FAKE_ENTER("cudaFuncGetAttributes");
  Kernel* const kernel = kernel_of(host_function);
  if (!kernel) return result(cudaErrorInvalidDeviceFunction);
  use_kernel(*kernel);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  return cudaSuccess;
}

// For the double's own tests.
void fakecuda_add_kernel(const void* host_function, const FakeKernel* emulation) {
  register_kernel(host_function, emulation->name_part);
  add_emulation(emulation);
}

}  // extern "C"
