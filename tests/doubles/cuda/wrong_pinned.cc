// The host's side of copies used too early.
#include <cstring>

#include "case.h"

using namespace doubles;

namespace {

// A slot of whole pages, one of less than a page, and written device memory.
struct Slots {
  cudaStream_t queue = stream();
  cudaEvent_t mark = event();
  std::byte* memory = device(8192);
  std::byte* slot = pinned(8192);
  std::byte* small = pinned(100);
  Slots() {
    OK(cudaMemsetAsync(memory, 1, 8192, queue));
    OK(cudaStreamSynchronize(queue));
  }
};

}  // namespace

WRONG(refilled_at_once, "in flight") {
  const Slots s;
  in(s.memory, s.slot, 8192, s.queue);
  std::memset(s.slot, 1, 8192);
}

WRONG(refilled_after_a_record, "in flight") {
  const Slots s;
  in(s.memory, s.slot, 8192, s.queue);
  OK(cudaEventRecord(s.mark, s.queue));
  s.slot[8191] = std::byte{1};
}

WRONG(small_slot_refilled, "in flight") {
  const Slots s;
  in(s.memory, s.small, 100, s.queue);
  s.small[99] = std::byte{1};
}

// Part of a page: told when the copy runs, or when the host learns that it ended.
WRONG(part_of_a_slot_refilled, "in flight") {
  const Slots s;
  in(s.memory, s.small, 99, s.queue);
  s.small[98] = std::byte{1};
  OK(cudaStreamSynchronize(s.queue));
}

WRONG(end_of_a_slot_refilled, "in flight") {
  const Slots s;
  in(s.memory, s.slot, 4096 + 10, s.queue);
  s.slot[4096 + 9] = std::byte{1};
  OK(cudaStreamSynchronize(s.queue));
}

// Two copies that share a page, which together have all of it.
WRONG(refilled_where_two_copies_meet, "in flight") {
  const Slots s;
  in(s.memory, s.slot, 1000, s.queue);
  in(s.memory + 1000, s.slot + 1000, 7192, s.queue);
  s.slot[1] = std::byte{1};
}

WRONG(refilled_while_not_ready, "in flight") {
  const Slots s;
  in(s.memory, s.slot, 8192, s.queue);
  OK(cudaEventRecord(s.mark, s.queue));
  REQUIRE(cudaEventQuery(s.mark) == cudaErrorNotReady);  // and what it says is left aside
  std::memset(s.slot, 1, 8192);
}

WRONG(refilled_while_the_stream_is_not_ready, "in flight") {
  const Slots s;
  in(s.memory, s.slot, 8192, s.queue);
  REQUIRE(cudaStreamQuery(s.queue) == cudaErrorNotReady);
  std::memset(s.slot, 1, 8192);
}

WRONG(refilled_after_the_wrong_event, "in flight") {
  const Slots s;
  cudaEvent_t const before = event();
  OK(cudaEventRecord(before, s.queue));
  in(s.memory, s.slot, 8192, s.queue);
  OK(cudaEventRecord(s.mark, s.queue));
  poll(before);
  std::memset(s.slot, 1, 8192);
}

WRONG(refilled_after_another_streams_event, "in flight") {
  const Slots s;
  cudaStream_t const other = stream();
  in(s.memory, s.slot, 8192, s.queue);
  OK(cudaEventRecord(s.mark, other));
  poll(s.mark);
  std::memset(s.slot, 1, 8192);
}

// The other of two copies of the same bytes has ended; this one may not have.
WRONG(refilled_after_one_of_two_copies, "in flight") {
  const Slots s;
  cudaStream_t const other = stream();
  std::byte* const memory = device(8192);
  in(s.memory, s.slot, 8192, s.queue);
  in(memory, s.slot, 8192, other);
  OK(cudaEventRecord(s.mark, other));
  poll(s.mark);
  std::memset(s.slot, 1, 8192);
}

WRONG(refilled_after_a_skipped_question, "in flight") {
  setenv("SLABLOAD_FAKE_FAULT", "0:cudaEventQuery:1:skip", 1);
  const Slots s;
  in(s.memory, s.slot, 8192, s.queue);
  OK(cudaEventRecord(s.mark, s.queue));
  OK(cudaEventQuery(s.mark));
  std::memset(s.slot, 1, 8192);
}

WRONG(read_back_too_early, "in flight") {
  const Slots s;
  out(s.slot, s.memory, 8192, s.queue);
  REQUIRE(s.slot[0] != s.slot[1]);
}

WRONG(read_back_after_a_record, "in flight") {
  const Slots s;
  out(s.slot, s.memory, 4096, s.queue);
  OK(cudaEventRecord(s.mark, s.queue));
  REQUIRE(s.slot[4095] != s.slot[0]);
}

WRONG(rows_read_back_too_early, "in flight") {
  const Slots s;
  OK(cudaMemcpy2DAsync(s.slot, 4096, s.memory, 4096, 4096, 2, cudaMemcpyDeviceToHost, s.queue));
  REQUIRE(s.slot[0] != s.slot[4096]);
}

WRONG(small_target_read_back_too_early, "in flight") {
  const Slots s;
  out(s.small, s.memory, 100, s.queue);
  REQUIRE(s.small[0] != s.small[1]);
}

// Poison in place of what the copy will bring: who reads it finds out, who writes over it is told.
WRONG(part_of_a_target_written_over, "in flight") {
  const Slots s;
  out(s.small, s.memory, 99, s.queue);
  if (s.small[5] != std::byte{1}) s.small[5] = std::byte{1};
  OK(cudaStreamSynchronize(s.queue));
}

WRONG(pinned_freed_in_flight, "freed in use") {
  const Slots s;
  in(s.memory, s.slot, 8192, s.queue);
  OK(cudaFreeHost(s.slot));
}

WRONG(pinned_freed_while_not_ready, "freed in use") {
  const Slots s;
  out(s.slot, s.memory, 10, s.queue);
  OK(cudaEventRecord(s.mark, s.queue));
  REQUIRE(cudaEventQuery(s.mark) == cudaErrorNotReady);
  OK(cudaFreeHost(s.slot));
}

WRONG(copy_in_from_pageable_memory, "pageable") {
  const Slots s;
  std::vector<std::byte> own(100);
  in(s.memory, own.data(), 100, s.queue);
}

WRONG(copy_out_to_pageable_memory, "pageable") {
  const Slots s;
  std::byte own[100];
  out(own, s.memory, 100, s.queue);
}

WRONG(rows_from_pageable_memory, "pageable") {
  const Slots s;
  std::byte own[100];
  OK(cudaMemcpy2DAsync(s.memory, 20, own, 10, 10, 10, cudaMemcpyHostToDevice, s.queue));
}
