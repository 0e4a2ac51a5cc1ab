// The communicators that the product has, by what it holds in its hands.
#pragma once

#include <nccl.h>

#include <memory>

#include "communicator.h"

namespace fakenccl {

// A handle is never given out twice.
ncclComm_t add_handle(std::shared_ptr<Communicator> communicator);
// Takes the communicator away from its handle; `ended_by` is the function that did it.
void end_handle(ncclComm_t handle, const char* ended_by);

// What the handle stands for; null for a null handle. One that was ended ends the process.
std::shared_ptr<Communicator> find(ncclComm_t handle, const char* function);

}  // namespace fakenccl
