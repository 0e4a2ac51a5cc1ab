#include "api.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "fault.h"
#include "segv.h"
#include "settings.h"
#include "stats.h"
#include "stream.h"
#include "violation.h"

namespace fakecuda {
namespace {

struct State {
  cudaError_t last = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  int device = -1;
  long thread = 0;
};

State& state() {
  static State* const kept = new State;
  return *kept;
}

// After these the real library answers every call with the same error.
bool ends_context(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<cudaError_t> enter(const char* function, Needs needs) {
  State& now = state();
  const long thread = syscall(SYS_gettid);
  if (now.thread == 0) {
    now.thread = thread;
    watch_faults();
    watch_exit();
  }
  if (now.thread != thread)
    violation("%s is called on a second thread; one thread issues everything", function);
  const Fault fault = next_call(function);
  if (fault.kind == Fault::Kind::skip) return cudaSuccess;
  if (fault.kind == Fault::Kind::error) {
    const auto error = static_cast<cudaError_t>(fault.code);
    if (ends_context(error)) now.sticky = error;
    return result(error);
  }
  if (needs != Needs::nothing && !settings().driver) return result(cudaErrorInsufficientDriver);
  if (needs != Needs::nothing && settings().gpus == 0) return result(cudaErrorNoDevice);
  if (needs != Needs::device) return std::nullopt;
  if (now.sticky != cudaSuccess) return result(now.sticky);
  progress();
  return std::nullopt;
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) state().last = error;
  return error;
}

cudaError_t context_error() {
  return state().sticky;
}

cudaError_t last_error() {
  return state().sticky != cudaSuccess ? state().sticky : state().last;
}
void clear_last_error() {
  state().last = cudaSuccess;
}

int current_device() {
  return state().device;
}

void set_current_device(int device) {
  int& current = state().device;
  if (current >= 0 && current != device)
    violation("the device is changed from %d to %d; a process has one", current, device);
  current = device;
}

}  // namespace fakecuda
