#include "backend/nccl/communicator.h"

#include <atomic>
#include <utility>

#include "backend/nccl/call.h"

namespace slabload::nccl {

Communicator::~Communicator() {
  if (get() == nullptr) return;
  CallName scope("ncclCommDestroy");
  // Nobody is left to hear of a failure: the work is done, and the process ends soon.
  ncclCommDestroy(handle_);
}

void Communicator::create(int ranks, const ncclUniqueId& id, int rank, ncclConfig_t config) {
  SLABLOAD_NCCL(ncclCommInitRankConfig, &handle_, ranks, id, rank, &config);
}

void Communicator::split(Communicator& parent, int color, int key) {
  // No configuration of its own: it takes the parent's.
  SLABLOAD_NCCL(ncclCommSplit, parent.get(), color, key, &handle_, nullptr);
}

bool Communicator::settled() const {
  ncclResult_t state = ncclSuccess;
  SLABLOAD_NCCL(ncclCommGetAsyncError, get(), &state);
  check(state, "NCCL");
  return state == ncclSuccess;
}

bool Communicator::abort() noexcept {
  ncclComm_t handle = get();
  if (handle == nullptr) return true;
  handle_ = nullptr;
  CallName scope("ncclCommAbort");
  return ncclCommAbort(handle) == ncclSuccess;
}

ncclComm_t Communicator::get() const {
  // A thread of NCCL's may be about to write it.
  return std::atomic_ref<ncclComm_t>(const_cast<ncclComm_t&>(handle_)).load();
}

}  // namespace slabload::nccl
