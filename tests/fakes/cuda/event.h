// Events: places in streams that the host and other streams wait for.
#pragma once

#include <driver_types.h>

#include <memory>
#include <string>
#include <vector>

#include "stream.h"

namespace fakecuda {

struct Event {
  std::uint64_t index = 0;  // counted from 1
  bool live = true;
  bool timed = true;
  std::shared_ptr<Record> record;  // the latest, or null
};

Event* create_event(bool timed);
// The event behind a handle of the product; ends the process for one that is none.
Event& event_of(cudaEvent_t handle, const char* function);
// Its latest record; ends the process if there is none.
Record& record_of(const Event& event, const char* function);
void destroy_event(Event& event);

void record_event(Event& event, Stream& stream);
void wait_for_event(Stream& stream, const Event& event);
// cudaErrorNotReady at least once for each record, unless the host knows better; then the host learns of it.
cudaError_t query_event(const Event& event);
cudaError_t query_stream(Stream& stream);
cudaError_t synchronize(Stream& stream, std::uint64_t number, const Clock& clock);

std::vector<std::string> event_leaks();

}  // namespace fakecuda
