// What the programs that measure a GPU have in common: checked calls, waiting, and figures as lines of JSON.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "backend/cuda/call.h"
#include "backend/cuda/handle.h"
#include "base/error.h"

namespace slabload::testing {

// Runs `body`; an Error becomes a line on stderr and its exit status.
template <typename Body>
int tool_main(const char* name, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.message().c_str());
    return static_cast<int>(error.status());
  }
}

// Throws Status::usage for an argument that is no whole number.
inline std::uint64_t number_argument(const char* text, const char* what) {
  char* end = nullptr;
  std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') fail(Status::usage, "{}: '{}' is not a whole number", what, text);
  return value;
}

inline void wait_for(const cuda::Event& event) {
  while (!cuda::has_passed(event, "a measurement")) {
  }
}

inline void print_line(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace slabload::testing
