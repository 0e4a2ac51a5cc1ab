// The wish to end: SIGINT or SIGTERM, noted by a handler and looked at between pieces of work.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"

namespace slabload {

// From here on the first of either signal is only noted; the next one ends the process at once. Not for a library: the
// handlers are the program's.
void note_stop_signals();

// Nothing while no signal has come, then the error to end with, Status::interrupted or Status::terminated: "stopped by
// SIGTERM" and what was `done` so far.
std::optional<Error> stop_wish(std::string_view done);

// Throws it.
void check_stop(std::string_view done);

}  // namespace slabload
