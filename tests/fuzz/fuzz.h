// What the fuzz targets share. A target takes an input or refuses it with an Error of the status that belongs to it;
// any other exception, and a promise that does not hold, ends the process, which is what libFuzzer looks for.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace slabload::fuzz {

inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
  std::abort();
}

// Runs `step`; false if it was refused. A refusal has one of the statuses, and a line that says why.
template <typename Step>
bool taken(std::initializer_list<Status> statuses, Step&& step) {
  try {
    step();
    return true;
  } catch (const Error& error) {
    bool known = false;
    for (Status status : statuses) known = known || error.status() == status;
    if (!known) std::fprintf(stderr, "status %d: %s\n", static_cast<int>(error.status()), error.what());
    must(known, "a refusal has the status that belongs to it");
    must(!error.message().empty(), "a refusal says why");
    return false;
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace slabload::fuzz
