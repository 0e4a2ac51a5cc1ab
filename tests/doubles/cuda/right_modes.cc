// When operations run: the modes, waits between streams, and the end after a failure.
#include <cstring>
#include <string>

#include "case.h"
#include "nccl_like.h"

using namespace doubles;

namespace {

// What the device holds by now, without asking for it.
std::byte now_at(std::byte* memory) {
  return *static_cast<std::byte*>(HOOK(fakecuda_alias)(memory, 1));
}

std::string mode() {
  const char* text = std::getenv("SLABLOAD_FAKE_STREAMS");
  return text ? text : "lazy";
}

// Calls that ask for nothing, but let streams move where the mode does that by itself.
void idle() {
  int device = 0;
  for (int i = 0; i < 200; ++i) OK(cudaGetDevice(&device));
}

}  // namespace

// lazy: only when asked for the second time; eager: at once; random: by and by.
RIGHT(runs_when_the_mode_says) {
  std::byte* const memory = device(1);
  cudaStream_t const queue = stream();
  cudaEvent_t const mark = event();
  const std::byte fresh = now_at(memory);
  REQUIRE(fresh != std::byte{0} && fresh != std::byte{1});
  OK(cudaMemsetAsync(memory, 1, 1, queue));
  OK(cudaEventRecord(mark, queue));
  if (mode() == "eager") REQUIRE(now_at(memory) == std::byte{1});
  idle();
  REQUIRE(now_at(memory) == (mode() == "lazy" ? fresh : std::byte{1}));
  REQUIRE(cudaEventQuery(mark) == cudaErrorNotReady);
  idle();
  REQUIRE(now_at(memory) == (mode() == "lazy" ? fresh : std::byte{1}));
  poll(mark);
  REQUIRE(now_at(memory) == std::byte{1});
  OK(cudaEventDestroy(mark));
  OK(cudaStreamDestroy(queue));
  OK(cudaFree(memory));
}

// Asking for one stream runs what it waits for in another, and no more of that one than needed.
RIGHT(waits_run_in_their_order) {
  std::byte* const memory = device(3);
  cudaStream_t const a = stream(), b = stream();
  cudaEvent_t const mark = event();
  bool gate = false;
  OK(cudaMemsetAsync(memory, 0, 3, a));
  nccl(a, {{memory, 1, 1}}, &gate);
  OK(cudaEventRecord(mark, a));
  OK(cudaMemsetAsync(memory + 2, 2, 1, a));
  OK(cudaStreamWaitEvent(b, mark, 0));
  OK(cudaMemsetAsync(memory + 1, 1, 1, b));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(cudaStreamQuery(b) == cudaErrorNotReady);
    idle();
  }
  REQUIRE(now_at(memory + 1) == std::byte{0} && now_at(memory + 2) == std::byte{0});
  gate = true;
  OK(cudaStreamSynchronize(b));
  REQUIRE(now_at(memory + 1) == std::byte{1});
  if (mode() == "lazy") REQUIRE(now_at(memory + 2) == std::byte{0});
  OK(cudaStreamSynchronize(a));
  REQUIRE(now_at(memory + 2) == std::byte{2});
  OK(cudaEventDestroy(mark));
  OK(cudaStreamDestroy(a));
  OK(cudaStreamDestroy(b));
  OK(cudaFree(memory));
}

// After communicators were aborted a process may free what is in use: that waits, as the real library does.
RIGHT(unwinding_after_an_abort) {
  std::byte* const memory = device(8192);
  std::byte* const slot = pinned(8192);
  cudaStream_t const load = stream(), wire = stream();
  cudaEvent_t const mark = event();
  bool never = false;
  in(memory, slot, 8192, load);
  OK(cudaEventRecord(mark, load));
  OK(cudaStreamWaitEvent(wire, mark, 0));
  nccl(wire, {{memory, 8192, 1}}, &never);
  OK(cudaEventRecord(mark, wire));
  OK(cudaStreamWaitEvent(load, mark, 0));
  in(memory, slot, 8192, load);
  REQUIRE(cudaEventQuery(mark) == cudaErrorNotReady);
  int skip = 0;
  REQUIRE(HOOK(fakecuda_fault)("ncclCommAbort", &skip) == 0 && skip == 0);
  OK(cudaFreeHost(slot));
  OK(cudaFree(memory));
  OK(cudaEventDestroy(mark));
  OK(cudaStreamDestroy(wire));
  OK(cudaStreamDestroy(load));
}

namespace {

int dropped = 0;
void drop(void*) {
  ++dropped;
}

}  // namespace

// What an operation keeps is given back once, whether it ends, fails, or is behind one that failed.
RIGHT(operations_are_dropped_once) {
  std::byte* const memory = device(10);
  const FakeAccess access{memory, 10, 1};
  cudaStream_t const queue = stream();
  bool open = true;
  OK(HOOK(fakecuda_enqueue)(queue, "ncclSend", &access, 1, step_when_open, drop, &open));
  OK(cudaStreamSynchronize(queue));
  REQUIRE(dropped == 1);
  OK(HOOK(fakecuda_enqueue)(queue, "ncclSend", &access, 1, step_fails, drop, &open));
  OK(HOOK(fakecuda_enqueue)(queue, "ncclSend", &access, 1, step_when_open, drop, &open));
  REQUIRE(cudaStreamSynchronize(queue) == cudaErrorUnknown);
  REQUIRE(dropped == 3);
  OK(cudaStreamDestroy(queue));
  REQUIRE(dropped == 3);
  OK(cudaFree(memory));
}
