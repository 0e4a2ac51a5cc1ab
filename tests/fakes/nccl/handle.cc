#include "handle.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "../cuda/hooks.h"
#include "names.h"
#include "settings.h"

struct ncclComm {
  std::shared_ptr<fakenccl::Communicator> communicator;
  const char* ended_by = nullptr;
};

namespace fakenccl {
namespace {

std::vector<ncclComm*>& handles() {
  static auto* const all = new std::vector<ncclComm*>;
  return *all;
}

// A process that fails may leave what it has.
void check_at_exit(int status, void*) {
  if (status != 0 || settings().leaks_allowed) return;
  for (const ncclComm* handle : handles())
    if (handle->communicator)
      fakecuda_violation(
          "leaked communicator: neither ncclCommDestroy nor ncclCommAbort was called on that of %s",
          handle->communicator->rank_text(handle->communicator->rank()).c_str());
}

}  // namespace

ncclComm_t add_handle(std::shared_ptr<Communicator> communicator) {
  if (handles().empty()) on_exit(check_at_exit, nullptr);
  handles().push_back(new ncclComm{std::move(communicator)});
  return handles().back();
}

void end_handle(ncclComm_t handle, const char* ended_by) {
  handle->communicator.reset();
  handle->ended_by = ended_by;
}

std::shared_ptr<Communicator> find(ncclComm_t handle, const char* function) {
  if (!handle) return nullptr;
  if (std::find(handles().begin(), handles().end(), handle) == handles().end())
    fakecuda_violation("%s: the handle is no communicator", function);
  if (!handle->communicator)
    fakecuda_violation("%s: use of a communicator after %s", function, handle->ended_by);
  return handle->communicator;
}

}  // namespace fakenccl
