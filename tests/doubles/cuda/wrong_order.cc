// Operations that nothing orders, waits that wait for nothing, and calls that must not happen now.
#include <thread>

#include "case.h"
#include "nccl_like.h"

using namespace doubles;

namespace {

struct TwoStreams {
  cudaStream_t a = stream(), b = stream();
  cudaEvent_t mark = event();
  std::byte* memory = device(10000);
  std::byte* slot = pinned(16384);
  std::byte* other = pinned(16384);
};

void kernel_stub() {}

}  // namespace

WRONG(no_event_between_streams, "not ordered") {
  const TwoStreams t;
  in(t.memory, t.slot, 10000, t.a);
  out(t.other, t.memory, 10000, t.b);
}

WRONG(event_without_wait, "not ordered") {
  const TwoStreams t;
  in(t.memory, t.slot, 10000, t.a);
  OK(cudaEventRecord(t.mark, t.a));
  out(t.other, t.memory, 10000, t.b);
}

WRONG(event_recorded_too_early, "not ordered") {
  const TwoStreams t;
  OK(cudaEventRecord(t.mark, t.a));
  in(t.memory, t.slot, 10000, t.a);
  OK(cudaStreamWaitEvent(t.b, t.mark, 0));
  out(t.other, t.memory, 10000, t.b);
}

WRONG(waits_after_its_use, "not ordered") {
  const TwoStreams t;
  in(t.memory, t.slot, 10000, t.a);
  OK(cudaEventRecord(t.mark, t.a));
  in(t.memory + 9999, t.other, 1, t.b);
  OK(cudaStreamWaitEvent(t.b, t.mark, 0));
}

WRONG(host_waits_for_the_wrong_stream, "not ordered") {
  const TwoStreams t;
  in(t.memory, t.slot, 10000, t.a);
  OK(cudaStreamSynchronize(t.b));
  out(t.other, t.memory, 10000, t.b);
}

WRONG(overlap_by_one_byte, "not ordered") {
  const TwoStreams t;
  in(t.memory, t.slot, 5000, t.a);
  in(t.memory + 4999, t.other, 5000, t.b);
}

WRONG(overwritten_while_read, "not ordered") {
  const TwoStreams t;
  OK(cudaMemsetAsync(t.memory, 0, 10000, t.a));
  OK(cudaStreamSynchronize(t.a));
  out(t.slot, t.memory, 10000, t.a);
  OK(cudaMemsetAsync(t.memory + 7000, 1, 10, t.b));
}

WRONG(columns_that_meet, "not ordered") {
  const TwoStreams t;
  OK(cudaMemcpy2DAsync(t.memory, 100, t.slot, 65, 65, 50, cudaMemcpyHostToDevice, t.a));
  OK(cudaMemcpy2DAsync(t.memory + 64, 100, t.other, 36, 36, 50, cudaMemcpyHostToDevice, t.b));
}

// Only the last row of one meets a row of the other.
WRONG(rows_of_two_pitches_that_meet, "not ordered") {
  const TwoStreams t;
  OK(cudaMemcpy2DAsync(t.memory, 100, t.slot, 10, 10, 10, cudaMemcpyHostToDevice, t.a));
  OK(cudaMemcpy2DAsync(t.memory + 10, 899, t.other, 5, 5, 2, cudaMemcpyHostToDevice, t.b));
}

WRONG(pinned_out_and_in_on_two_streams, "not ordered") {
  const TwoStreams t;
  OK(cudaMemsetAsync(t.memory, 0, 10000, t.a));
  out(t.slot, t.memory, 5000, t.a);
  in(t.memory + 5000, t.slot, 5000, t.b);
}

WRONG(nccl_beside_a_copy, "not ordered") {
  const TwoStreams t;
  bool gate = true;
  in(t.memory, t.slot, 10000, t.a);
  nccl(t.b, {{t.memory, 100, 0}}, &gate);
}

WRONG(cuda_memcpy_beside_a_stream, "not ordered") {
  const TwoStreams t;
  OK(cudaMemsetAsync(t.memory, 0, 10000, t.a));
  std::byte back[10];
  OK(cudaMemcpy(back, t.memory, 10, cudaMemcpyDeviceToHost));
}

// What a skipped wait leaves: the mutation checks of the product rest on it.
WRONG(wait_that_is_skipped, "not ordered") {
  setenv("SLABLOAD_FAKE_FAULT", "0:cudaStreamWaitEvent:1:skip", 1);
  const TwoStreams t;
  in(t.memory, t.slot, 10000, t.a);
  OK(cudaEventRecord(t.mark, t.a));
  OK(cudaStreamWaitEvent(t.b, t.mark, 0));
  out(t.other, t.memory, 10000, t.b);
}

WRONG(copy_onto_its_source, "overlap") {
  const TwoStreams t;
  OK(cudaMemsetAsync(t.memory, 0, 10000, t.a));
  OK(cudaMemcpyAsync(t.memory + 99, t.memory, 100, cudaMemcpyDeviceToDevice, t.a));
}

WRONG(waits_for_no_record, "never recorded") {
  const TwoStreams t;
  OK(cudaStreamWaitEvent(t.a, t.mark, 0));
}

WRONG(asks_for_no_record, "never recorded") {
  cudaEventQuery(TwoStreams().mark);
}

WRONG(waits_on_the_host_for_no_record, "never recorded") {
  OK(cudaEventSynchronize(TwoStreams().mark));
}

WRONG(default_stream, "default stream") {
  const TwoStreams t;
  in(t.memory, t.slot, 100, nullptr);
}

WRONG(destroyed_stream, "use after free") {
  const TwoStreams t;
  OK(cudaStreamDestroy(t.a));
  in(t.memory, t.slot, 100, t.a);
}

WRONG(stream_destroyed_in_use, "freed in use") {
  const TwoStreams t;
  in(t.memory, t.slot, 100, t.a);
  OK(cudaStreamDestroy(t.a));
}

WRONG(destroyed_event, "use after free") {
  const TwoStreams t;
  OK(cudaEventDestroy(t.mark));
  OK(cudaEventRecord(t.mark, t.a));
}

WRONG(no_such_stream, "no stream") {
  const TwoStreams t;
  OK(cudaEventRecord(t.mark, reinterpret_cast<cudaStream_t>(t.mark)));
}

WRONG(wrong_direction, "wrong direction") {
  const TwoStreams t;
  OK(cudaMemcpyAsync(t.memory, t.slot, 10, cudaMemcpyDeviceToHost, t.a));
}

WRONG(another_device, "device is changed") {
  const TwoStreams t;
  OK(cudaSetDevice(1));
}

WRONG(a_second_thread, "second thread") {
  const TwoStreams t;
  std::thread([&] { OK(cudaMemsetAsync(t.memory, 0, 1, t.a)); }).join();
}

WRONG(unknown_kernel, "no emulation") {
  const TwoStreams t;
  const void* const kernel = reinterpret_cast<const void*>(kernel_stub);
  __cudaRegisterFunction(nullptr, static_cast<const char*>(kernel), nullptr, "nobody_knows", -1, nullptr,
                         nullptr, nullptr, nullptr, nullptr);
  OK(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, t.a));
}

WRONG(too_many_threads, "1 x 1 x 1 blocks of 1025 x 1 x 1") {
  const TwoStreams t;
  const void* const kernel = reinterpret_cast<const void*>(kernel_stub);
  __cudaRegisterFunction(nullptr, static_cast<const char*>(kernel), nullptr, "slabload_cast", -1, nullptr,
                         nullptr, nullptr, nullptr, nullptr);
  OK(cudaLaunchKernel(kernel, dim3(1), dim3(1025), nullptr, 0, t.a));
}

WRONG(malloc_beside_nccl, "deadlock") {
  const TwoStreams t;
  bool gate = true;
  nccl(t.a, {{t.memory, 10, 1}}, &gate);
  device(1);
}

WRONG(free_beside_nccl, "deadlock") {
  const TwoStreams t;
  bool gate = true;
  nccl(t.a, {{t.memory, 10, 1}}, &gate);
  OK(cudaFreeHost(t.slot));
}

WRONG(event_created_beside_nccl, "deadlock") {
  const TwoStreams t;
  bool gate = true;
  nccl(t.a, {{t.memory, 10, 1}}, &gate);
  OK(cudaStreamSynchronize(t.b));
  event();
}

WRONG(first_use_of_a_kernel_beside_nccl, "deadlock") {
  const TwoStreams t;
  bool gate = true;
  const void* const kernel = reinterpret_cast<const void*>(kernel_stub);
  __cudaRegisterFunction(nullptr, static_cast<const char*>(kernel), nullptr, "slabload_cast", -1, nullptr,
                         nullptr, nullptr, nullptr, nullptr);
  nccl(t.a, {{t.memory, 10, 1}}, &gate);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, kernel));
}
