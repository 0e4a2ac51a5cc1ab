#include "copy.h"

#include <cstring>

#include "event.h"
#include "memory.h"
#include "pinned.h"
#include "stats.h"
#include "violation.h"

namespace fakecuda {
namespace {

bool on_device(const Region& region) {
  return device_memory().holds(region.begin);
}

const char* kind_name(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return "host to host";
    case cudaMemcpyHostToDevice:
      return "host to device";
    case cudaMemcpyDeviceToHost:
      return "device to host";
    case cudaMemcpyDeviceToDevice:
      return "device to device";
    case cudaMemcpyDefault:
      return "default";
  }
  return "unknown";
}

cudaMemcpyKind direction(const Region& to, const Region& from) {
  if (on_device(to)) return on_device(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return on_device(from) ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

void check_direction(const char* function, cudaMemcpyKind actual, cudaMemcpyKind kind) {
  if (actual == cudaMemcpyHostToHost) violation("wrong direction: %s from host to host", function);
  if (kind != cudaMemcpyDefault && kind != actual)
    violation("wrong direction: %s says %s, but its addresses say %s", function, kind_name(kind),
              kind_name(actual));
}

void check_pinned(const char* function, const Region& region) {
  if (!on_device(region) && !pinned_memory().holds(region.begin))
    violation("pageable: %s with the host's memory at 0x%llx, which is not pinned", function,
              static_cast<unsigned long long>(region.begin));
}

void count(cudaMemcpyKind actual, std::uint64_t bytes) {
  count_figure(actual == cudaMemcpyHostToDevice   ? "h2d"
               : actual == cudaMemcpyDeviceToHost ? "d2h"
                                                  : "d2d",
               bytes);
}

void copy_rows(const Region& to, const Region& from) {
  const Arena& arena = device_memory().arena();
  for (std::uint64_t i = 0; i < to.rows; ++i) {
    if (!on_device(from))
      pinned_memory().read(from.row(i), arena.alias(to.row(i)), to.width);
    else if (!on_device(to))
      pinned_memory().write(to.row(i), arena.alias(from.row(i)), to.width);
    else
      std::memcpy(arena.alias(to.row(i)), arena.alias(from.row(i)), to.width);
  }
}

}  // namespace

void copy(Stream& stream, const char* function, const Region& to, const Region& from, cudaMemcpyKind kind) {
  if (to.rows == 0 || to.width == 0) return;
  if (to.pitch < to.width || from.pitch < from.width)
    violation("pitch too small: %s with pitches %zu and %zu and a width of %zu", function,
              std::size_t{to.pitch}, std::size_t{from.pitch}, std::size_t{to.width});
  const cudaMemcpyKind actual = direction(to, from);
  check_direction(function, actual, kind);
  check_pinned(function, to);
  check_pinned(function, from);
  if (overlap(to, from)) violation("overlap: %s onto its own source", function);
  count(actual, to.width * to.rows);
  Operation operation;
  operation.step = [to, from] {
    copy_rows(to, from);
    return 1;
  };
  enqueue(stream, function, {{from, false}, {to, true}}, std::move(operation));
}

void fill(Stream& stream, const char* function, const Region& to, int value) {
  if (to.rows == 0 || to.width == 0) return;
  if (!on_device(to)) violation("%s of memory that is not the device's", function);
  Operation operation;
  operation.step = [to, value] {
    std::memset(device_memory().arena().alias(to.begin), value, to.width);
    return 1;
  };
  enqueue(stream, function, {{to, true}}, std::move(operation));
}

cudaError_t copy_and_wait(void* to, const void* from, std::uint64_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const Region target{reinterpret_cast<std::uint64_t>(to), bytes, bytes, 1};
  const Region source{reinterpret_cast<std::uint64_t>(from), bytes, bytes, 1};
  const cudaMemcpyKind actual = direction(target, source);
  check_direction("cudaMemcpy", actual, kind);
  count(actual, bytes);
  // The host's side needs no check: the host itself waits here, and touches it as it does all of its memory.
  std::vector<Access> accesses;
  if (on_device(source)) accesses.push_back({source, false});
  if (on_device(target)) accesses.push_back({target, true});
  Operation operation;
  operation.step = [=] {
    const Arena& arena = device_memory().arena();
    std::memcpy(on_device(target) ? arena.alias(target.begin) : static_cast<std::byte*>(to),
                on_device(source) ? arena.alias(source.begin) : static_cast<const std::byte*>(from), bytes);
    return 1;
  };
  Stream& stream = host_stream();
  enqueue(stream, "cudaMemcpy", accesses, std::move(operation));
  return synchronize(stream, stream.issued, stream.clock);
}

}  // namespace fakecuda
