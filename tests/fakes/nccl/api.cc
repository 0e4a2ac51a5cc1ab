#include "api.h"

#include "../cuda/hooks.h"
#include "handle.h"
#include "names.h"

namespace fakenccl {

std::optional<ncclResult_t> enter(const char* function) {
  int skip = 0;
  const int code = fakecuda_fault(function, &skip);
  if (code != 0) return failed(static_cast<ncclResult_t>(code), text("%s : injected fault", function));
  if (skip) return ncclSuccess;
  fakecuda_progress();
  return std::nullopt;
}

std::shared_ptr<Communicator> ready(ncclComm_t handle, const char* function, ncclResult_t& result) {
  std::shared_ptr<Communicator> communicator = find(handle, function);
  if (!communicator) {
    result = failed(ncclInvalidArgument, text("%s : comm argument is NULL", function));
    return nullptr;
  }
  if (communicator->stopped())
    fakecuda_violation("%s: use of a communicator whose family was aborted", function);
  if (communicator->error() != ncclSuccess) {
    result = failed(communicator->error(), text("%s : the communicator has failed before", function));
    return nullptr;
  }
  if (communicator->in_progress())
    fakecuda_violation("%s: use of a communicator that is still in progress", function);
  if (communicator->finalized())
    fakecuda_violation("%s: use of a communicator after ncclCommFinalize", function);
  return communicator;
}

void forbid_in_group(const char* function) {
  if (in_group()) fakecuda_violation("%s between ncclGroupStart and ncclGroupEnd", function);
}

}  // namespace fakenccl
