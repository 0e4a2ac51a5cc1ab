#include "backend/cuda/probe.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <exception>

#include "base/current_call.h"

namespace slabload::cuda {
namespace {

// One call of the probe; the first that fails says why there is no GPU.
template <typename Call>
bool works(GpuProbe& probe, const char* name, Call&& call) {
  CallName scope(name);
  cudaError_t code = call();
  if (code == cudaSuccess) return true;
  (void)cudaGetLastError();
  probe.unusable = fmt::format("{}: {} ({})", name, cudaGetErrorString(code), cudaGetErrorName(code));
  probe.broken = true;
  return false;
}

void look(GpuProbe& probe) {
  if (!works(probe, "cudaDriverGetVersion", [&] { return cudaDriverGetVersion(&probe.driver_version); }))
    return;
  if (!works(probe, "cudaRuntimeGetVersion", [&] { return cudaRuntimeGetVersion(&probe.runtime_version); }))
    return;
  if (probe.driver_version == 0) {
    probe.unusable = "no NVIDIA driver on this host";
    return;
  }
  // Within a major version an older driver serves a newer runtime.
  if (probe.driver_version / 1000 < probe.runtime_version / 1000) {
    probe.unusable = fmt::format("the driver's CUDA {} is too old for this program's CUDA {}",
                                 version_text(probe.driver_version), version_text(probe.runtime_version));
    return;
  }
  int count = 0;
  CallName scope("cudaGetDeviceCount");
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    (void)cudaGetLastError();
    probe.unusable = "the NVIDIA driver shows no GPU to this process";
    return;
  }
  if (!works(probe, "cudaGetDeviceCount", [&] { return code; })) return;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    char bus_id[32] = {};
    if (!works(probe, "cudaGetDeviceProperties",
               [&] { return cudaGetDeviceProperties(&properties, ordinal); }))
      return;
    if (!works(probe, "cudaDeviceGetPCIBusId",
               [&] { return cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, ordinal); }))
      return;
    probe.gpus.push_back({properties.name, properties.totalGlobalMem, bus_id});
  }
}

}  // namespace

GpuProbe probe() noexcept {
  GpuProbe probe;
  try {
    look(probe);
  } catch (const std::exception& error) {
    probe.unusable = "out of memory";
  }
  return probe;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace slabload::cuda
