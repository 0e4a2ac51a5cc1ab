// Versions, errors and devices.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "api.h"
#include "memory.h"
#include "settings.h"

using namespace fakecuda;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  FAKE_ENTER("cudaDriverGetVersion", Needs::nothing);
  *version = settings().driver ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  FAKE_ENTER("cudaRuntimeGetVersion", Needs::nothing);
  *version = settings().runtime_version;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  FAKE_ENTER("cudaGetLastError", Needs::nothing);
  const cudaError_t error = last_error();
  clear_last_error();
  return error;
}

cudaError_t cudaPeekAtLastError() {
  FAKE_ENTER("cudaPeekAtLastError", Needs::nothing);
  return last_error();
}

cudaError_t cudaGetDeviceCount(int* count) {
  FAKE_ENTER("cudaGetDeviceCount", Needs::driver);
  *count = settings().gpus;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  FAKE_ENTER("cudaSetDevice");
  if (device < 0 || device >= settings().gpus) return result(cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  FAKE_ENTER("cudaGetDevice");
  *device = std::max(current_device(), 0);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  FAKE_ENTER("cudaDeviceGetAttribute");
  if (device < 0 || device >= settings().gpus) return result(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = 2147483647;
      break;
    case cudaDevAttrMaxGridDimY:
      *value = 65535;
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      break;
    case cudaDevAttrMaxPitch:
      *value = 2147483647;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = 3;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    case cudaDevAttrPciBusId:
      *value = 0x10 + device;
      break;
    case cudaDevAttrPciDeviceId:
      *value = 0;
      break;
    case cudaDevAttrPciDomainId:
      *value = 0;
      break;
    case cudaDevAttrHostNumaId:
      *value = 0;
      break;
    default:
      return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  FAKE_ENTER("cudaGetDeviceProperties");
  if (device < 0 || device >= settings().gpus) return result(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "Fake GPU");
  properties->uuid.bytes[15] = static_cast<char>(device);
  properties->totalGlobalMem = settings().memory;
  properties->sharedMemPerBlock = 48 << 10;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->memPitch = 2147483647;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->asyncEngineCount = 3;
  properties->unifiedAddressing = 1;
  properties->pciBusID = 0x10 + device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  FAKE_ENTER("cudaDeviceGetPCIBusId");
  if (device < 0 || device >= settings().gpus) return result(cudaErrorInvalidDevice);
  const int needed = std::snprintf(text, static_cast<std::size_t>(std::max(length, 0)), "0000:%02X:00.0",
                                   0x10 + settings().visible[static_cast<std::size_t>(device)]);
  return needed < length ? cudaSuccess : result(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  FAKE_ENTER("cudaMemGetInfo");
  set_current_device(std::max(current_device(), 0));
  *total_bytes = settings().memory;
  *free_bytes = settings().memory - device_memory().used();
  return cudaSuccess;
}

}  // extern "C"
