// Which GPU a rank of the tests has.
#pragma once

#include <mpi.h>

#include <algorithm>

#include "backend/cuda/probe.h"
#include "base/narrow.h"

namespace slabload::testing {

// All ranks of these tests are on one host, and share its GPUs where there are fewer (NCCL allows that only
// to ranks that are told that they are on different hosts, see tests/gpu/one_gpu.sh). The same throughout a
// process.
inline int gpu_ordinal() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank % std::max(1, narrow<int>(cuda::probe().gpus.size()));
}

}  // namespace slabload::testing
