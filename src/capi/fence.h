// What stands between C and the program: errors as handles, exceptions that end here, options by name.
#pragma once

#include <exception>
#include <new>

#include "app/options.h"
#include "base/error.h"
#include "slabload/slabload.h"

struct slabload_error {
  slabload::Error error;
};

namespace slabload::capi {

inline slabload_status store(slabload_error** out, const Error& error) noexcept {
  if (out != nullptr) {
    try {
      *out = new slabload_error{error};
    } catch (...) {
      *out = nullptr;  // the status alone has to do
    }
  }
  return static_cast<slabload_status>(error.status());
}

inline slabload_status store_plain(slabload_error** out, const char* message) noexcept {
  try {
    return store(out, Error(Status::internal, message));
  } catch (...) {
    return SLABLOAD_INTERNAL;
  }
}

// Runs `step`; nothing gets past it but a status and, if `out` wants it, the error.
template <typename Step>
slabload_status fenced(slabload_error** out, Step&& step) noexcept {
  if (out != nullptr) {
    delete *out;
    *out = nullptr;
  }
  try {
    step();
    return SLABLOAD_OK;
  } catch (const Error& error) {
    return store(out, error);
  } catch (const std::bad_alloc&) {
    return store_plain(out, "out of memory");
  } catch (const std::exception& error) {
    return store_plain(out, error.what());
  } catch (...) {
    return store_plain(out, "an unknown exception");
  }
}

inline void need(const void* argument, const char* name) {
  if (argument == nullptr) fail(Status::usage, "the argument `{}` is NULL", name);
}

// The options of a verb, given by their names on its command line; a flag's value is "true". Throws Status::usage.
RunOptions parse_options(const char* verb, const slabload_option* given, std::uint64_t count);

}  // namespace slabload::capi
