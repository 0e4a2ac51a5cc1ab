// Device memory used wrongly.
#include <cstring>

#include "case.h"
#include "nccl_like.h"

using namespace doubles;

namespace {

// Written memory that a case may then use wrongly.
struct Written {
  cudaStream_t queue = stream();
  std::byte* memory = device(1000);
  std::byte* slot = pinned(8192);
  Written() {
    OK(cudaMemsetAsync(memory, 1, 1000, queue));
    OK(cudaStreamSynchronize(queue));
  }
};

}  // namespace

WRONG(host_reads_device_memory, "host touches device memory") {
  const Written w;
  REQUIRE(w.memory[17] != w.memory[18]);
}

WRONG(host_writes_device_memory, "host touches device memory") {
  std::memset(Written().memory, 0, 10);
}

WRONG(host_touches_freed_device_memory, "host touches device memory") {
  const Written w;
  OK(cudaFree(w.memory));
  w.memory[0] = std::byte{1};
}

WRONG(copy_in_one_byte_beyond, "out of bounds") {
  const Written w;
  in(w.memory + 1, w.slot, 1000, w.queue);
}

WRONG(copy_in_one_byte_before, "out of bounds") {
  const Written w;
  in(w.memory - 1, w.slot, 10, w.queue);
}

WRONG(copy_out_one_byte_beyond, "out of bounds") {
  const Written w;
  out(w.slot, w.memory, 1001, w.queue);
}

WRONG(copy_out_of_pinned_bounds, "out of bounds") {
  const Written w;
  out(w.slot + 8192 - 999, w.memory, 1000, w.queue);
}

WRONG(fill_one_byte_beyond, "out of bounds") {
  const Written w;
  OK(cudaMemsetAsync(w.memory, 0, 1001, w.queue));
}

WRONG(rows_one_byte_beyond, "out of bounds") {
  const Written w;
  OK(cudaMemcpy2DAsync(w.memory + 1, 100, w.slot, 100, 100, 10, cudaMemcpyHostToDevice, w.queue));
}

WRONG(rows_beyond_by_their_pitch, "out of bounds") {
  const Written w;
  OK(cudaMemcpy2DAsync(w.memory, 110, w.slot, 20, 20, 10, cudaMemcpyHostToDevice, w.queue));
}

WRONG(pitch_below_the_width, "pitch too small") {
  const Written w;
  OK(cudaMemcpy2DAsync(w.memory, 99, w.slot, 100, 100, 2, cudaMemcpyHostToDevice, w.queue));
}

WRONG(use_after_free, "use after free") {
  const Written w;
  OK(cudaFree(w.memory));
  in(w.memory, w.slot, 10, w.queue);
}

// The next allocation must not hide it.
WRONG(use_after_free_and_allocation, "use after free") {
  const Written w;
  OK(cudaFree(w.memory));
  device(1000);
  OK(cudaMemsetAsync(w.memory, 0, 10, w.queue));
}

WRONG(double_free, "double free") {
  const Written w;
  OK(cudaFree(w.memory));
  OK(cudaFree(w.memory));
}

WRONG(free_of_a_part, "never given out") {
  OK(cudaFree(Written().memory + 256));
}

WRONG(free_of_the_hosts, "never given out") {
  OK(cudaFree(Written().slot));
}

WRONG(double_free_of_pinned, "double free") {
  const Written w;
  OK(cudaFreeHost(w.slot));
  OK(cudaFreeHost(w.slot));
}

WRONG(pinned_used_after_free, "use after free") {
  const Written w;
  OK(cudaFreeHost(w.slot));
  in(w.memory, w.slot, 10, w.queue);
}

WRONG(host_touches_freed_pinned_memory, "after free") {
  const Written w;
  OK(cudaFreeHost(w.slot));
  w.slot[0] = std::byte{1};
}

WRONG(host_writes_behind_pinned_memory, "out of bounds") {
  std::byte* const slot = pinned(100);
  slot[100] = std::byte{1};
  OK(cudaFreeHost(slot));
}

WRONG(host_writes_a_page_behind_pinned_memory, "out of bounds") {
  pinned(100)[4096] = std::byte{1};
}

WRONG(freed_while_written, "freed in use") {
  const Written w;
  OK(cudaMemsetAsync(w.memory, 0, 1000, w.queue));
  OK(cudaFree(w.memory));
}

WRONG(reads_nothing_written_by_copy_out, "uninitialised") {
  const Written w;
  out(w.slot, device(100), 100, w.queue);
}

WRONG(reads_one_byte_not_written, "uninitialised") {
  const Written w;
  std::byte* const memory = device(100);
  OK(cudaMemsetAsync(memory, 0, 49, w.queue));
  OK(cudaMemsetAsync(memory + 50, 0, 50, w.queue));
  out(w.slot, memory, 100, w.queue);
}

WRONG(reads_between_written_columns, "uninitialised") {
  const Written w;
  std::byte* const memory = device(1000);
  OK(cudaMemcpy2DAsync(memory, 100, w.slot, 99, 99, 10, cudaMemcpyHostToDevice, w.queue));
  out(w.slot + 4096, memory, 990, w.queue);
}

WRONG(copies_nothing_written, "uninitialised") {
  const Written w;
  OK(cudaMemcpyAsync(w.memory, device(10), 10, cudaMemcpyDeviceToDevice, w.queue));
}

WRONG(sends_nothing_written, "uninitialised") {
  bool gate = true;
  nccl(stream(), {{device(10), 10, 0}}, &gate);
}

WRONG(nccl_beyond_bounds, "out of bounds") {
  const Written w;
  bool gate = true;
  nccl(w.queue, {{w.memory + 500, 501, 1}}, &gate);
}

namespace {

int step_scribbles(void* memory) {
  static_cast<std::byte*>(HOOK(fakecuda_alias)(memory, 1000))[1000] = std::byte{0};
  return 1;
}

}  // namespace

WRONG(writes_beside_its_range, "out of bounds") {
  const Written w;
  const FakeAccess access{w.memory, 1000, 1};
  OK(HOOK(fakecuda_enqueue)(w.queue, "ncclBroadcast", &access, 1, step_scribbles, nullptr, w.memory));
  OK(cudaStreamSynchronize(w.queue));
}

WRONG(leaked_device_memory, "leaked: device allocation 1 (7 bytes)") {
  device(7);
}
WRONG(leaked_pinned_memory, "leaked: pinned allocation 1 (7 bytes)") {
  pinned(7);
}
WRONG(leaked_stream, "leaked: stream 1") {
  stream();
}
WRONG(leaked_event, "leaked: event 1") {
  event();
}
WRONG(leaked_memory_of_nccl, "leaked: memory of NCCL (9 bytes)") {
  OK(cudaFree(nullptr));
  OK(HOOK(fakecuda_charge)(9));
}
