#include "stream.h"

#include <time.h>

#include <algorithm>
#include <random>

#include "access.h"
#include "fault.h"
#include "memory.h"
#include "pinned.h"
#include "settings.h"
#include "violation.h"

namespace fakecuda {
namespace {

struct State {
  std::vector<Stream*> streams;  // by their index; handles stay valid, so that use after the end can be told
  Clock host;
  std::vector<std::shared_ptr<const Label>> nccl;  // what the host doesn't know to have ended
  std::mt19937_64 random{settings().seed * 1000003 + static_cast<std::uint64_t>(settings().rank)};
  bool running = false;  // inside an operation
};

State& state() {
  static State* const kept = new State;
  return *kept;
}

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void end_front(Stream& stream) {
  Operation ended = std::move(stream.queue.front());
  stream.queue.pop_front();
  ++stream.ended;
  if (ended.record) {
    ended.record->done = true;
    ended.record->time_s = now_s();
    ended.record->error = stream.error;
  }
  if (ended.drop) ended.drop();
}

// Steps the first operation; true if it has ended. After a failure, all behind it end without being run.
bool step_front(Stream& stream) {
  if (stream.queue.empty()) return false;
  Operation& operation = stream.queue.front();
  if (operation.waits_for && !operation.waits_for->done) return false;
  operation.started = true;
  const int result = operation.step ? operation.step() : 1;
  if (result == 0) return false;
  if (result < 0) stream.error = cudaErrorUnknown;
  end_front(stream);
  while (stream.error != cudaSuccess && !stream.queue.empty()) end_front(stream);
  return true;
}

void run_random() {
  State& now = state();
  // Few mostly, so that streams get out of step; now and then many, so that long queues end.
  for (auto left = now.random() % 16 == 0 ? 100 : now.random() % 4; left > 0; --left) {
    std::vector<Stream*> waiting;
    for (Stream* stream : now.streams)
      if (!stream->queue.empty()) waiting.push_back(stream);
    if (waiting.empty()) return;
    step_front(*waiting[now.random() % waiting.size()]);
  }
}

// What has been started moves on by itself.
void run_started() {
  for (Stream* stream : state().streams)
    if (!stream->queue.empty() && stream->queue.front().started) step_front(*stream);
}

// Holds off progress from within an operation.
class Running {
 public:
  Running() : outer_(state().running) { state().running = true; }
  ~Running() { state().running = outer_; }
  bool outermost() const { return !outer_; }

 private:
  bool outer_;
};

}  // namespace

const std::vector<Stream*>& all_streams() {
  return state().streams;
}
const Clock& host_clock() {
  return state().host;
}

Stream* create_stream() {
  host_stream();
  State& now = state();
  Stream* const stream = new Stream;
  stream->index = static_cast<unsigned>(now.streams.size());
  now.streams.push_back(stream);
  return stream;
}

Stream& host_stream() {
  State& now = state();
  if (now.streams.empty()) now.streams.push_back(new Stream);
  return *now.streams.front();
}

Stream& stream_of(cudaStream_t handle, const char* function) {
  Stream* const stream = reinterpret_cast<Stream*>(handle);
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    violation("%s uses a default stream; only streams of one's own are ordered as one thinks", function);
  const auto& known = all_streams();
  if (std::find(known.begin(), known.end(), stream) == known.end())
    violation("%s: %p is no stream", function, static_cast<void*>(handle));
  if (!stream->live)
    violation("use after free: %s uses stream %u, which is destroyed", function, stream->index);
  return *stream;
}

void destroy_stream(Stream& stream) {
  if (!gave_up() && host_clock().at(stream.index) < stream.issued)
    violation(
        "freed in use: cudaStreamDestroy of stream %u while operations of it may still run: the host has "
        "waited "
        "for %zu of %zu",
        stream.index, std::size_t{host_clock().at(stream.index)}, std::size_t{stream.issued});
  run_everything();
  while (!stream.queue.empty()) end_front(stream);
  stream.live = false;
}

std::shared_ptr<const Label> enqueue(Stream& stream, const std::string& name,
                                     const std::vector<Access>& accesses, Operation operation) {
  stream.clock.join(state().host);
  stream.clock.set(stream.index, ++stream.issued);
  const auto label = std::make_shared<const Label>(Label{name, stream.index, stream.issued});
  admit(accesses, label, stream.clock);
  if (name.rfind("nccl", 0) == 0) state().nccl.push_back(label);
  operation.label = label;
  if (operation.record) {
    operation.record->stream = &stream;
    operation.record->number = stream.issued;
    operation.record->clock = stream.clock;
  }
  stream.queue.push_back(std::move(operation));
  if (stream.error != cudaSuccess) end_front(stream);
  if (settings().mode == Mode::eager) run_everything();
  return label;
}

void progress() {
  if (settings().mode == Mode::eager) return run_everything();
  Running running;
  if (!running.outermost()) return;
  if (settings().mode == Mode::random)
    run_random();
  else
    run_started();
}

void run_everything() {
  Running running;
  if (!running.outermost()) return;
  for (bool moved = true; moved;) {
    moved = false;
    for (Stream* stream : all_streams())
      while (step_front(*stream)) moved = true;
  }
}

bool run_until(Stream& stream, std::uint64_t number) {
  Running running;
  while (stream.ended < number) {
    const std::shared_ptr<Record> needed = stream.queue.front().waits_for;
    if (needed && !needed->done && !run_until(*needed->stream, needed->number)) return false;
    if (!step_front(stream)) return false;
  }
  return true;
}

void wait_until(Stream& stream, std::uint64_t number) {
  while (!run_until(stream, number)) {
    run_started();
    const timespec pause{0, 50'000};
    nanosleep(&pause, nullptr);
  }
}

void host_learns(const Clock& clock) {
  State& now = state();
  now.host.join(clock);
  std::erase_if(now.nccl, [&](const auto& label) { return now.host.covers(*label); });
  pinned_memory().release(now.host);
  device_memory().blocks().forget(now.host);
  device_memory().check_red_zones(false);
}

void forbid_while_nccl_pending(const char* what) {
  if (state().nccl.empty() || gave_up()) return;
  violation("%s while %s may be under way: it can deadlock with NCCL", what,
            state().nccl.front()->text().c_str());
}

std::vector<std::string> stream_leaks() {
  std::vector<std::string> leaks;
  for (const Stream* stream : all_streams())
    if (stream->live && stream->index > 0) leaks.push_back("stream " + std::to_string(stream->index));
  return leaks;
}

}  // namespace fakecuda
