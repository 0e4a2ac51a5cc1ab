// NCCL calls checked: a code that is neither success nor "in progress" becomes an Error with the call's name
// and what NCCL says of the cause.
#pragma once

#include <nccl.h>

#include <string>

#include "base/current_call.h"

namespace slabload::nccl {

// Throws "CALL: text: cause" unless `code` is ncclSuccess or ncclInProgress: Status::peer, or Status::usage
// where the device's memory did not suffice.
void check(ncclResult_t code, const char* call);

// "2.28.9" of 22809.
std::string version_text(int code);

// "2.28.9" of the library that this process has.
std::string library_version();

}  // namespace slabload::nccl

// SLABLOAD_NCCL(ncclGroupEnd) calls and checks.
#define SLABLOAD_NCCL(function, ...)                    \
  ::slabload::nccl::check(                              \
      [&] {                                             \
        ::slabload::CallName slabload_scope(#function); \
        return function(__VA_ARGS__);                   \
      }(),                                              \
      #function)
