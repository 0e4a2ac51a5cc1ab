#include "backend/cuda/kernels.h"

using slabload::kCrc64Copies;
using slabload::kCrc64Entries;
using slabload::cuda::CastParams;
using slabload::cuda::ChecksumParams;
using slabload::cuda::RelayoutParams;

namespace {

constexpr unsigned kThreads = 256;

__device__ std::uint64_t own_number() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::uint64_t all_threads() {
  return std::uint64_t{gridDim.x} * blockDim.x;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) slabload_cast(const __grid_constant__ CastParams p) {
  slabload::cuda::cast_thread(p, own_number(), all_threads());
}

extern "C" __global__ void __launch_bounds__(kThreads)
    slabload_relayout(const __grid_constant__ RelayoutParams p) {
  slabload::cuda::relayout_thread(p, own_number(), all_threads());
}

extern "C" __global__ void __launch_bounds__(kThreads)
    slabload_crc64(const __grid_constant__ ChecksumParams p) {
  __shared__ std::uint64_t tables[kCrc64Entries * kCrc64Copies];
  for (unsigned i = threadIdx.x; i < kCrc64Entries * kCrc64Copies; i += blockDim.x)
    tables[i] = slabload::crc64_entry(p.box.step, i / kCrc64Copies);
  __syncthreads();
  unsigned long long shares = slabload::cuda::checksum_thread(p, tables + threadIdx.x % kCrc64Copies,
                                                              kCrc64Copies, own_number(), all_threads());
  for (int apart = 16; apart > 0; apart /= 2) shares ^= __shfl_xor_sync(0xffffffff, shares, apart);
  if (threadIdx.x % 32 == 0 && shares != 0) atomicXor(reinterpret_cast<unsigned long long*>(p.sum), shares);
}

namespace slabload::cuda {
namespace {

// `work` is in threads.
template <typename Params>
cudaError_t launch(void (*kernel)(Params), const Params& params, std::uint64_t work, unsigned most_blocks,
                   cudaStream_t stream) {
  std::uint64_t blocks = (work + kThreads - 1) / kThreads;
  if (blocks > most_blocks) blocks = most_blocks;
  if (blocks == 0) blocks = 1;
  void* arguments[] = {const_cast<Params*>(&params)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                          dim3(kThreads), arguments, 0, stream);
}

}  // namespace

cudaError_t launch_cast(const CastParams& params, unsigned most_blocks, cudaStream_t stream) {
  return launch(slabload_cast, params, params.count, most_blocks, stream);
}

cudaError_t launch_relayout(const RelayoutParams& params, unsigned most_blocks, cudaStream_t stream) {
  return launch(slabload_relayout, params, relayout_work(params), most_blocks, stream);
}

cudaError_t launch_checksum(const ChecksumParams& params, unsigned most_blocks, cudaStream_t stream) {
  return launch(slabload_crc64, params, params.box.lines * params.box.lanes, most_blocks, stream);
}

}  // namespace slabload::cuda
