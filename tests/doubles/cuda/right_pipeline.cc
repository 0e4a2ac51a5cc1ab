// Copies, streams and events as a pipeline uses them.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "case.h"

using namespace doubles;

// Twelve pieces through three slots; a slot is filled again when its copy has passed.
RIGHT(ring_of_slots) {
  constexpr std::size_t piece = 10000;
  constexpr int pieces = 12, slots = 3;
  std::byte* const memory = device(pieces * piece);
  cudaStream_t const queue = stream();
  std::byte* slot[slots];
  cudaEvent_t passed[slots];
  for (int i = 0; i < slots; ++i) slot[i] = pinned(piece), passed[i] = event(cudaEventDisableTiming);
  for (int i = 0; i < pieces; ++i) {
    if (i >= slots) poll(passed[i % slots]);
    fill(slot[i % slots], piece, i);
    in(memory + i * piece, slot[i % slots], piece, queue);
    OK(cudaEventRecord(passed[i % slots], queue));
  }
  std::byte* const back = pinned(pieces * piece);
  out(back, memory, pieces * piece, queue);
  OK(cudaEventRecord(passed[0], queue));
  poll(passed[0]);
  for (int i = 0; i < pieces; ++i) REQUIRE(holds(back + i * piece, piece, i));
  for (int i = 0; i < slots; ++i) {
    OK(cudaFreeHost(slot[i]));
    OK(cudaEventDestroy(passed[i]));
  }
  OK(cudaFreeHost(back));
  OK(cudaStreamDestroy(queue));
  OK(cudaFree(memory));
}

// From stream to stream to stream, ordered by events only.
RIGHT(three_streams_in_a_row) {
  std::byte* const memory = device(5000);
  std::byte* const other = device(5000);
  std::byte* const source = pinned(5000);
  std::byte* const back = pinned(5000);
  cudaStream_t const a = stream(), b = stream(), c = stream();
  cudaEvent_t const ab = event(), bc = event();
  fill(source, 5000, 1);
  in(memory, source, 5000, a);
  OK(cudaEventRecord(ab, a));
  OK(cudaStreamWaitEvent(b, ab, 0));
  OK(cudaEventRecord(bc, b));
  OK(cudaStreamWaitEvent(c, bc, 0));
  OK(cudaMemcpyAsync(other, memory, 5000, cudaMemcpyDeviceToDevice, c));
  out(back, other, 5000, c);
  OK(cudaStreamSynchronize(c));
  REQUIRE(holds(back, 5000, 1));
  for (cudaStream_t queue : {a, b, c}) OK(cudaStreamDestroy(queue));
  for (cudaEvent_t one : {ab, bc}) OK(cudaEventDestroy(one));
  for (std::byte* one : {source, back}) OK(cudaFreeHost(one));
  for (std::byte* one : {memory, other}) OK(cudaFree(one));
}

// The host's wait orders two streams as an event would.
RIGHT(ordered_by_the_host) {
  std::byte* const memory = device(100);
  std::byte* const back = pinned(100);
  cudaStream_t const a = stream(), b = stream();
  cudaEvent_t const done = event();
  OK(cudaMemsetAsync(memory, 7, 100, a));
  OK(cudaEventRecord(done, a));
  poll(done);
  out(back, memory, 100, b);
  int tries = 0;
  while (cudaStreamQuery(b) == cudaErrorNotReady) REQUIRE(++tries < 100000);
  for (int i = 0; i < 100; ++i) REQUIRE(back[i] == std::byte{7});
  OK(cudaStreamDestroy(a));
  OK(cudaStreamDestroy(b));
  OK(cudaEventDestroy(done));
  OK(cudaFreeHost(back));
  OK(cudaFree(memory));
}

// Two streams write columns side by side: no row of one meets a row of the other.
RIGHT(columns_of_two_streams) {
  constexpr std::size_t pitch = 96, rows = 50;
  std::byte* const memory = device(pitch * rows);
  std::byte* const left = pinned(64 * rows);
  std::byte* const right = pinned(32 * rows);
  std::byte* const back = pinned(pitch * rows);
  cudaStream_t const a = stream(), b = stream();
  fill(left, 64 * rows, 1);
  fill(right, 32 * rows, 2);
  OK(cudaMemcpy2DAsync(memory, pitch, left, 64, 64, rows, cudaMemcpyHostToDevice, a));
  OK(cudaMemcpy2DAsync(memory + 64, pitch, right, 32, 32, rows, cudaMemcpyHostToDevice, b));
  OK(cudaDeviceSynchronize());
  out(back, memory, pitch * rows, a);
  OK(cudaStreamSynchronize(a));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < 64; ++i) REQUIRE(back[row * pitch + i] == left[row * 64 + i]);
    for (std::size_t i = 0; i < 32; ++i) REQUIRE(back[row * pitch + 64 + i] == right[row * 32 + i]);
  }
  OK(cudaStreamDestroy(a));
  OK(cudaStreamDestroy(b));
  for (std::byte* one : {left, right, back}) OK(cudaFreeHost(one));
  OK(cudaFree(memory));
}

// Rows out of the device into every second half page, while the host uses the other halves.
RIGHT(rows_to_the_host_between_its_own) {
  std::byte* const memory = device(2048 * 8);
  std::byte* const target = pinned(4096 * 8);
  cudaStream_t const queue = stream();
  OK(cudaMemsetAsync(memory, 9, 2048 * 8, queue));
  OK(cudaMemcpy2DAsync(target, 4096, memory, 2048, 2048, 8, cudaMemcpyDeviceToHost, queue));
  for (int row = 0; row < 8; ++row) fill(target + row * 4096 + 2048, 2048, row);
  OK(cudaStreamSynchronize(queue));
  for (int row = 0; row < 8; ++row) {
    for (int i = 0; i < 2048; ++i) REQUIRE(target[row * 4096 + i] == std::byte{9});
    REQUIRE(holds(target + row * 4096 + 2048, 2048, row));
  }
  OK(cudaStreamDestroy(queue));
  OK(cudaFreeHost(target));
  OK(cudaFree(memory));
}

// A part of a slot is in flight, and the host fills the next part; the page between belongs to both.
RIGHT(host_fills_the_rest_of_a_slot) {
  std::byte* const memory = device(20000);
  std::byte* const slot = pinned(20000);
  std::byte* const back = pinned(20000);
  cudaStream_t const queue = stream();
  fill(slot, 20000, 3);
  std::byte first[9999];
  for (int i = 0; i < 9999; ++i) first[i] = slot[i];
  in(memory, slot, 9999, queue);
  fill(slot + 9999, 10001, 4);
  in(memory + 9999, slot + 9999, 10001, queue);
  REQUIRE(slot[0] == first[0] && slot[5000] == first[5000]);  // reading a source is allowed
  out(back, memory, 20000, queue);
  OK(cudaStreamSynchronize(queue));
  for (int i = 0; i < 9999; ++i) REQUIRE(back[i] == first[i]);
  REQUIRE(holds(back + 9999, 10001, 4));
  OK(cudaStreamDestroy(queue));
  OK(cudaFreeHost(slot));
  OK(cudaFreeHost(back));
  OK(cudaFree(memory));
}

// Out to the host and in again from there, on one stream.
RIGHT(through_the_host_without_a_wait) {
  std::byte* const memory = device(6000);
  std::byte* const other = device(6000);
  std::byte* const between = pinned(6000);
  std::byte* const back = pinned(6000);
  cudaStream_t const queue = stream();
  OK(cudaMemsetAsync(memory, 5, 6000, queue));
  out(between, memory, 6000, queue);
  in(other, between, 6000, queue);
  out(back, other, 6000, queue);
  OK(cudaStreamSynchronize(queue));
  for (int i = 0; i < 6000; ++i) REQUIRE(back[i] == std::byte{5} && between[i] == std::byte{5});
  OK(cudaStreamDestroy(queue));
  OK(cudaFreeHost(between));
  OK(cudaFreeHost(back));
  OK(cudaFree(memory));
  OK(cudaFree(other));
}

// An event means what it recorded last at the time of the wait, not what it records later.
RIGHT(an_event_recorded_twice) {
  std::byte* const memory = device(100);
  cudaStream_t const a = stream(), b = stream();
  cudaEvent_t const mark = event();
  OK(cudaMemsetAsync(memory, 1, 50, a));
  OK(cudaEventRecord(mark, a));
  OK(cudaStreamWaitEvent(b, mark, 0));
  OK(cudaMemsetAsync(memory + 50, 2, 50, a));
  OK(cudaEventRecord(mark, a));
  OK(cudaMemsetAsync(memory, 3, 50, b));
  poll(mark);
  OK(cudaStreamSynchronize(b));
  std::byte back[100];
  OK(cudaMemcpy(back, memory, 100, cudaMemcpyDeviceToHost));
  REQUIRE(back[0] == std::byte{3} && back[99] == std::byte{2});
  OK(cudaStreamDestroy(a));
  OK(cudaStreamDestroy(b));
  OK(cudaEventDestroy(mark));
  OK(cudaFree(memory));
}

// The first question after a record is always answered "not ready"; the time between is known when both have
// passed.
RIGHT(events_and_times) {
  std::byte* const memory = device(100);
  cudaStream_t const queue = stream();
  cudaEvent_t const begin = event(), end = event(), untimed = event(cudaEventDisableTiming);
  float milliseconds = -1;
  OK(cudaEventRecord(begin, queue));
  OK(cudaMemsetAsync(memory, 1, 100, queue));
  OK(cudaEventRecord(end, queue));
  OK(cudaEventRecord(untimed, queue));
  REQUIRE(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorNotReady);
  REQUIRE(cudaEventQuery(end) == cudaErrorNotReady);
  REQUIRE(cudaGetLastError() == cudaErrorNotReady && cudaGetLastError() == cudaSuccess);
  poll(end);
  OK(cudaEventQuery(begin));  // the host knows by now
  OK(cudaEventElapsedTime(&milliseconds, begin, end));
  REQUIRE(milliseconds >= 0);
  poll(untimed);
  REQUIRE(cudaEventElapsedTime(&milliseconds, begin, untimed) == cudaErrorInvalidResourceHandle);
  for (cudaEvent_t one : {begin, end, untimed}) OK(cudaEventDestroy(one));
  OK(cudaStreamDestroy(queue));
  OK(cudaFree(memory));
}

// What the system is asked to read into memory in flight, or into the device's, it refuses.
RIGHT(reads_into_memory_in_flight_fail) {
  std::byte* const memory = device(4096);
  std::byte* const slot = pinned(4096);
  cudaStream_t const queue = stream();
  const int zeros = open("/dev/zero", O_RDONLY);
  REQUIRE(read(zeros, slot, 4096) == 4096);
  in(memory, slot, 4096, queue);
  REQUIRE(read(zeros, slot, 4096) == -1 && errno == EFAULT);
  REQUIRE(read(zeros, memory, 4096) == -1 && errno == EFAULT);
  OK(cudaStreamSynchronize(queue));
  REQUIRE(read(zeros, slot, 4096) == 4096);
  close(zeros);
  OK(cudaStreamDestroy(queue));
  OK(cudaFreeHost(slot));
  OK(cudaFree(memory));
}
