// A communicator of NCCL, made without blocking, as a handle that is given back.
#pragma once

#include <nccl.h>

namespace slabload::nccl {

// Stays where it is: NCCL writes the handle later.
class Communicator {
 public:
  Communicator() = default;
  // Gives the communicator back, if it was not aborted: all work on it has to be done, on all its ranks.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Starts to make it. Collective over `ranks` ranks, which pass the same id and alike configurations.
  void create(int ranks, const ncclUniqueId& id, int rank, ncclConfig_t config);
  // Starts to make it from those ranks of `parent` that pass the same color, in the order of their keys, or,
  // for NCCL_SPLIT_NOCOLOR, to help the others to. Collective over the parent, which must be settled before
  // and is in progress from here on; the handle is there once it is settled again.
  void split(Communicator& parent, int color, int key);

  // True once what was asked of it last has been done, so that the next may be asked. Throws its error.
  bool settled() const;

  // Ends whatever is under way on it, here and now, and gives it back. False if NCCL could not. No other
  // member may be called after it; does nothing without a communicator.
  bool abort() noexcept;

  ncclComm_t get() const;

 private:
  ncclComm_t handle_ = nullptr;
};

}  // namespace slabload::nccl
