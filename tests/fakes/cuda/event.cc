#include "event.h"

#include <algorithm>

#include "settings.h"
#include "violation.h"

namespace fakecuda {
namespace {

std::vector<Event*>& events() {
  static auto* const kept = new std::vector<Event*>;
  return *kept;
}

// Whether the operations that a question is about have ended; runs them where the mode leaves it to
// questions.
bool ended(Stream& stream, std::uint64_t number) {
  return settings().mode == Mode::lazy ? run_until(stream, number) : stream.ended >= number;
}

}  // namespace

Event* create_event(bool timed) {
  Event* const event = new Event;
  events().push_back(event);
  event->index = events().size();
  event->timed = timed;
  return event;
}

Event& event_of(cudaEvent_t handle, const char* function) {
  Event* const event = reinterpret_cast<Event*>(handle);
  if (std::find(events().begin(), events().end(), event) == events().end())
    violation("%s: %p is no event", function, static_cast<void*>(handle));
  if (!event->live)
    violation("use after free: %s uses event %zu, which is destroyed", function, std::size_t{event->index});
  return *event;
}

Record& record_of(const Event& event, const char* function) {
  if (!event.record) violation("never recorded: %s uses event %zu", function, std::size_t{event.index});
  return *event.record;
}

void destroy_event(Event& event) {
  event.live = false;
  event.record.reset();
}

void record_event(Event& event, Stream& stream) {
  event.record = std::make_shared<Record>();
  Operation operation;
  operation.record = event.record;
  enqueue(stream, "cudaEventRecord", {}, std::move(operation));
}

void wait_for_event(Stream& stream, const Event& event) {
  Operation operation;
  operation.waits_for = event.record;
  stream.clock.join(event.record->clock);
  enqueue(stream, "cudaStreamWaitEvent", {}, std::move(operation));
}

cudaError_t query_event(const Event& event) {
  Record& record = *event.record;
  const bool known = host_clock().at(record.stream->index) >= record.number;
  if (!known) {
    const bool asked = record.asked;
    record.asked = true;
    if (!asked || !ended(*record.stream, record.number)) return cudaErrorNotReady;
    host_learns(record.clock);
  }
  return record.error;
}

cudaError_t query_stream(Stream& stream) {
  const bool known = host_clock().at(stream.index) >= stream.issued;
  if (!known) {
    const bool asked = stream.asked == stream.issued;
    stream.asked = stream.issued;
    if (!asked || !ended(stream, stream.issued)) return cudaErrorNotReady;
    host_learns(stream.clock);
  }
  return stream.error;
}

cudaError_t synchronize(Stream& stream, std::uint64_t number, const Clock& clock) {
  wait_until(stream, number);
  host_learns(clock);
  return stream.error;
}

std::vector<std::string> event_leaks() {
  std::vector<std::string> leaks;
  for (const Event* event : events())
    if (event->live) leaks.push_back("event " + std::to_string(event->index));
  return leaks;
}

}  // namespace fakecuda
