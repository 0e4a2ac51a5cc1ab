// Launching the kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/kernel_body.h"

namespace slabload::cuda {

// Each puts its kernel into `stream`, with as many blocks as there is work for, one at least and
// `most_blocks` at most, and returns the code of cudaLaunchKernel. No work (a count, runs or lines of 0)
// touches no memory.
cudaError_t launch_cast(const CastParams& params, unsigned most_blocks, cudaStream_t stream);
cudaError_t launch_relayout(const RelayoutParams& params, unsigned most_blocks, cudaStream_t stream);
cudaError_t launch_checksum(const ChecksumParams& params, unsigned most_blocks, cudaStream_t stream);

}  // namespace slabload::cuda
