#include "hooks.h"

#include <memory>
#include <vector>

#include "api.h"
#include "fault.h"
#include "memory.h"
#include "settings.h"
#include "stats.h"
#include "stream.h"
#include "violation.h"

using namespace fakecuda;

extern "C" {

int fakecuda_enqueue(void* stream, const char* name, const FakeAccess* accesses, int count,
                     int (*step)(void*), void (*drop)(void*), void* state) {
  std::vector<Access> all;
  for (int i = 0; i < count; ++i) {
    const FakeAccess& access = accesses[i];
    if (access.bytes == 0) continue;
    if (!device_memory().holds(number_of(access.address)))
      violation("%s with memory that is not the device's", name);
    all.push_back({{number_of(access.address), access.bytes, access.bytes, 1}, access.writes != 0});
    if (access.writes) device_memory().suspect(number_of(access.address));
  }
  Operation operation;
  operation.step = [step, state] { return step(state); };
  if (drop) operation.drop = [drop, state] { drop(state); };
  enqueue(stream_of(static_cast<cudaStream_t>(stream), name), name, all, std::move(operation));
  return cudaSuccess;
}

void fakecuda_progress(void) {
  progress();
}

void* fakecuda_alias(const void* device_address, size_t bytes) {
  if (!device_memory().blocks().find(number_of(device_address), bytes)) return nullptr;
  return device_memory().arena().alias(number_of(device_address));
}

int fakecuda_locate(const void* device_address, size_t bytes, int* descriptor, uint64_t* offset) {
  if (!device_memory().blocks().find(number_of(device_address), bytes)) return -1;
  *descriptor = device_memory().arena().descriptor();
  *offset = device_memory().arena().offset(number_of(device_address));
  return 0;
}

int fakecuda_charge(size_t bytes) {
  return device_memory().charge(bytes) ? cudaSuccess : cudaErrorMemoryAllocation;
}

void fakecuda_uncharge(size_t bytes) {
  device_memory().uncharge(bytes);
}

int fakecuda_device(void) {
  const int device = current_device();
  return device < 0 ? device : settings().visible.at(static_cast<std::size_t>(device));
}

int fakecuda_rank(void) {
  return rank();
}

int fakecuda_fault(const char* function, int* skip) {
  const Fault fault = next_call(function);
  *skip = fault.kind == Fault::Kind::skip;
  return fault.kind == Fault::Kind::error ? fault.code : 0;
}

void fakecuda_set_faults(const char* text) {
  set_faults(text);
}

int fakecuda_context_error(void) {
  return context_error();
}

void fakecuda_count(const char* figure, uint64_t amount) {
  count_figure(figure, amount);
}

void fakecuda_violation(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  violation_list(format, arguments);
}

}  // extern "C"
