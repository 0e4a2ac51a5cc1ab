// What the entry points have in common.
#pragma once

#include <nccl.h>

#include <memory>
#include <optional>

#include "communicator.h"

namespace fakenccl {

// Begins a call: acts out an injected fault and moves the streams on. What the call is to return at once, if
// anything.
std::optional<ncclResult_t> enter(const char* function);

// The communicator that a call works on. `result` tells why there is none; one that is not in a state to be
// used ends the process.
std::shared_ptr<Communicator> ready(ncclComm_t handle, const char* function, ncclResult_t& result);

// True between ncclGroupStart and its ncclGroupEnd.
bool in_group();
// Ends the process if so: communicators are made and ended outside of groups.
void forbid_in_group(const char* function);

}  // namespace fakenccl
