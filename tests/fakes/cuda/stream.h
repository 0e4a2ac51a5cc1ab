// Streams: queues of operations, run inside the product's calls as the mode says.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "order.h"

namespace fakecuda {

struct Stream;

// What an event has recorded: a place in a stream.
struct Record {
  Stream* stream = nullptr;
  std::uint64_t number = 0;  // the operation that records it
  Clock clock;               // what is ordered before the event
  bool asked = false;        // the host was told once that it isn't ready
  bool done = false;
  cudaError_t error = cudaSuccess;
  double time_s = 0;
};

struct Operation {
  std::shared_ptr<const Label> label;
  // 1: ended, 0: cannot go on yet, -1: failed. Called again until it is not 0.
  std::function<int()> step;
  std::function<void()> drop;         // once, after the end; may be empty
  std::shared_ptr<Record> waits_for;  // of cudaStreamWaitEvent
  std::shared_ptr<Record> record;     // of cudaEventRecord
  bool started = false;
};

struct Stream {
  unsigned index = 0;
  bool live = true;
  Clock clock;               // what the next operation is ordered behind
  std::uint64_t issued = 0;  // operations put in
  std::uint64_t ended = 0;   // operations ended
  std::uint64_t asked = 0;   // issued, when the host was last told that it isn't ready
  cudaError_t error = cudaSuccess;
  std::deque<Operation> queue;
};

Stream* create_stream();
// The stream behind a handle of the product; ends the process for one that is none. The default streams are
// refused.
Stream& stream_of(cudaStream_t handle, const char* function);
// The stream of cudaMemcpy, which the host waits for at once.
Stream& host_stream();
void destroy_stream(Stream& stream);

// Puts an operation in, checks its accesses and, in eager mode, runs it. `name` must begin with "nccl" for
// NCCL's.
std::shared_ptr<const Label> enqueue(Stream& stream, const std::string& name,
                                     const std::vector<Access>& accesses, Operation operation);

// What every call does on entry.
void progress();
// Runs what is needed for the first `number` operations of the stream to have ended, as far as possible; true
// if they have.
bool run_until(Stream& stream, std::uint64_t number);
// Runs all that can run.
void run_everything();
// The same, and waits for what other processes have to do.
void wait_until(Stream& stream, std::uint64_t number);

// What the host knows to have ended.
const Clock& host_clock();
// The host has learned of it: releases what only waited for that.
void host_learns(const Clock& clock);

// Ends the process if NCCL's operations may be under way, as far as the host knows; `what` must not happen
// then.
void forbid_while_nccl_pending(const char* what);

std::vector<std::string> stream_leaks();
const std::vector<Stream*>& all_streams();

}  // namespace fakecuda
