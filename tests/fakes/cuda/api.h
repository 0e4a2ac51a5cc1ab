// What every function of the runtime API does first and last.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

namespace fakecuda {

enum class Needs { nothing, driver, device };

// Counts the call, acts out faults, moves streams on. A value is to be returned at once.
std::optional<cudaError_t> enter(const char* function, Needs needs = Needs::device);

// Remembers the error for cudaGetLastError and returns it.
cudaError_t result(cudaError_t error);
cudaError_t last_error();
// That which has ended the context: every call that needs the device gives it from then on.
cudaError_t context_error();
void clear_last_error();

// The current device, -1 if none was set or used.
int current_device();
void set_current_device(int device);

}  // namespace fakecuda

#define FAKE_ENTER(...) \
  if (const auto at_once = fakecuda::enter(__VA_ARGS__)) return *at_once
