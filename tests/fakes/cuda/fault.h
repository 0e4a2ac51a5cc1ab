// Counts calls and acts out the failures that SLABLOAD_FAKE_FAULT asks for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fakecuda {

struct Fault {
  enum class Kind { none, error, skip };
  Kind kind = Kind::none;
  int code = 0;  // of an error
};

// Counts one call of `function` and says what is to become of it. Does not return where the call is to hang
// or kill. In SLABLOAD_FAKE_FAULT, RANK and NTH may be * as well: every rank, every call.
Fault next_call(const char* function);

// Takes these in place of what SLABLOAD_FAKE_FAULT said; NTH then counts the calls from now on.
void set_faults(const std::string& text);

const std::map<std::string, std::uint64_t>& call_counts();
// The calls in their order: a function, and how often it was called before another was.
const std::vector<std::pair<std::string, std::uint64_t>>& call_runs();
std::uint64_t total_calls();

// True once this process has a reason to unwind with work in flight: an error was acted out here, or
// communicators were aborted. Then freeing what is in use waits for it, as the real library does, and is no
// violation.
bool gave_up();

}  // namespace fakecuda
