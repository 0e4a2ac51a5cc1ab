#include "backend/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "backend/cuda/call.h"
#include "backend/cuda/kernels.h"
#include "base/bytes.h"
#include "base/stopwatch.h"
#include "tensor/box_checksum.h"
#include "tensor/cast.h"
#include "tensor/relayout.h"

namespace slabload::cuda {
namespace {

constexpr unsigned kBlocksPerProcessor = 8;
constexpr std::uint64_t kChecksumThreads = 1 << 18;  // as many as the largest GPUs run at once
constexpr std::uint64_t kMostPitch = std::numeric_limits<std::int32_t>::max();  // of cudaMemcpy2DAsync
constexpr std::uint64_t kScratch = 4096;

const unsigned char* in_bytes(const std::byte* data) {
  return reinterpret_cast<const unsigned char*>(data);
}
unsigned char* in_bytes(std::byte* data) {
  return reinterpret_cast<unsigned char*>(data);
}
std::uint64_t address(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal), name_(fmt::format("GPU {}", ordinal)) {
  SLABLOAD_CUDA_CALL(name_, cudaSetDevice, ordinal);
  cudaDeviceProp properties{};
  SLABLOAD_CUDA_CALL(name_, cudaGetDeviceProperties, &properties, ordinal);
  model_ = properties.name;
  name_ += fmt::format(" ({})", model_);
  blocks_ = static_cast<unsigned>(std::max(properties.multiProcessorCount, 1)) * kBlocksPerProcessor;
  stream_ = make_stream(name_);
  order_ = make_event(false, name_);
  clock_ = make_event(true, name_);
  for (Event& mark : marks_) mark = make_event(true, name_);
  scratch_ = allocate(kScratch, "the warm-up");
}

std::string CudaDevice::description() const {
  return fmt::format("cuda ({}, one per rank)", model_);
}

std::string CudaDevice::where(std::uint64_t bytes, const std::string& what) const {
  return fmt::format("{}, {} {}", name_, format_binary(bytes), what);
}

CudaDevice::Memory CudaDevice::memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  SLABLOAD_CUDA_CALL(name_, cudaMemGetInfo, &free, &total);
  return {free, total};
}

std::unique_ptr<DeviceMemory> CudaDevice::allocate(std::uint64_t bytes, const char* purpose) {
  void* data = nullptr;
  if (bytes > 0) {
    CallName scope("cudaMalloc");
    cudaError_t code = cudaMalloc(&data, bytes);
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // it does not stick
      Memory have = memory();
      std::string lacks =
          bytes > have.free ? fmt::format("lacks {} bytes", bytes - have.free) : "too scattered to be had";
      fail(Status::usage, "{}: {} has {} free of {}, {} are needed: {}", purpose, name_,
           format_bytes(have.free), format_bytes(have.total), format_bytes(bytes), lacks);
    }
    if (code != cudaSuccess) fail_call(code, "cudaMalloc", where(bytes, fmt::format("for {}", purpose)));
  }
  return std::make_unique<GpuMemory>(static_cast<std::byte*>(data), bytes, usage_);
}

void CudaDevice::require(std::uint64_t bytes, const std::string& what) {
  const Memory have = memory();
  if (bytes <= have.free) return;
  fail(Status::usage, "{}: {} has {} free of {}, lacks {} bytes", what, name_, format_bytes(have.free),
       format_bytes(have.total), bytes - have.free);
}

std::unique_ptr<DeviceMemory> CudaDevice::allocate_staging(std::uint64_t bytes, const char* purpose) {
  void* data = nullptr;
  if (bytes > 0) {
    CallName scope("cudaHostAlloc");
    cudaError_t code = cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      fail(Status::usage, "{}: the host has no {} of memory to pin", purpose, format_bytes(bytes));
    }
    if (code != cudaSuccess) fail_call(code, "cudaHostAlloc", where(bytes, fmt::format("for {}", purpose)));
  }
  return std::make_unique<PinnedMemory>(static_cast<std::byte*>(data), bytes, usage_);
}

void CudaDevice::warm_up() {
  auto host = allocate_staging(kScratch, "the warm-up");
  std::memset(host->data(), 0, kScratch);
  std::byte* scratch = scratch_->data();
  copy_in(host->data(), scratch, kScratch);
  SLABLOAD_CUDA_CALL(name_, cudaMemsetAsync, scratch, 0, kScratch, stream_.get());
  SLABLOAD_CUDA_CALL(name_, cudaMemcpyAsync, scratch + kScratch / 2, scratch, kScratch / 2,
                     cudaMemcpyDeviceToDevice, stream_.get());
  SLABLOAD_CUDA_CALL(name_, cudaMemcpy2DAsync, scratch + kScratch / 2, 32, scratch, 32, 16, 16,
                     cudaMemcpyDeviceToDevice, stream_.get());
  // Without work the kernels touch nothing, but they are loaded.
  SLABLOAD_CUDA_NAMED(name_, "cudaLaunchKernel", launch_cast({}, blocks_, stream_.get()));
  RelayoutParams no_runs{};
  no_runs.unit = 1;  // what work is counted in
  SLABLOAD_CUDA_NAMED(name_, "cudaLaunchKernel", launch_relayout(no_runs, blocks_, stream_.get()));
  SLABLOAD_CUDA_NAMED(name_, "cudaLaunchKernel", launch_checksum({}, blocks_, stream_.get()));
  copy_out(scratch, host->data(), kScratch);
  set_clock();
  scratch_.reset();
}

// Gives the events a time: what lies between the record and its answer makes them early, never late.
void CudaDevice::set_clock() {
  clock_s_ = now_s();
  SLABLOAD_CUDA_CALL(name_, cudaEventRecord, clock_.get(), stream_.get());
  while (!has_passed(clock_, name_)) std::this_thread::yield();
}

void CudaDevice::copy(const std::byte* from, std::byte* to, std::uint64_t bytes, cudaMemcpyKind kind,
                      const char* what) {
  if (bytes == 0) return;
  SLABLOAD_CUDA_CALL(where(bytes, what), cudaMemcpyAsync, to, from, bytes, kind, stream_.get());
}

void CudaDevice::copy_in(const std::byte* host, std::byte* to, std::uint64_t bytes) {
  copy(host, to, bytes, cudaMemcpyHostToDevice, "to the GPU");
}

void CudaDevice::copy_out(const std::byte* from, std::byte* host, std::uint64_t bytes) {
  copy(from, host, bytes, cudaMemcpyDeviceToHost, "from the GPU");
}

void CudaDevice::cast(DType from, DType to, const std::byte* in, std::uint64_t count, std::byte* out) {
  if (from == to) {
    copy(in, out, count * dtype_size(from), cudaMemcpyDeviceToDevice, "within the GPU");
    return;
  }
  if (count == 0) return;
  CastParams params{};
  params.rule = cast_rule(from, to);
  params.in = in_bytes(in);
  params.out = in_bytes(out);
  params.count = count;
  params.in_unit = common_unit(address(in));
  params.out_unit = common_unit(address(out));
  SLABLOAD_CUDA_NAMED(where(count * dtype_size(from), "to cast"), "cudaLaunchKernel",
                      launch_cast(params, blocks_, stream_.get()));
}

void CudaDevice::copy_box(std::uint32_t element_size, const Box& box, const std::byte* from,
                          const Box& from_box, std::byte* to, const Box& to_box) {
  Relayout layout = make_relayout(element_size, box, from_box, to_box);
  if (layout.runs == 0) return;
  const std::byte* source = from + layout.from_offset;
  std::byte* target = to + layout.to_offset;
  if (layout.ndim == 0) {
    copy(source, target, layout.run_bytes, cudaMemcpyDeviceToDevice, "within the GPU");
  } else if (layout.ndim == 1 && layout.from_step[0] <= kMostPitch && layout.to_step[0] <= kMostPitch) {
    SLABLOAD_CUDA_CALL(where(layout.runs * layout.run_bytes, "within the GPU"), cudaMemcpy2DAsync, target,
                       layout.to_step[0], source, layout.from_step[0], layout.run_bytes, layout.runs,
                       cudaMemcpyDeviceToDevice, stream_.get());
  } else {
    copy_runs(layout, from, to);
  }
}

void CudaDevice::copy_runs(const Relayout& layout, const std::byte* from, std::byte* to) {
  RelayoutParams params{};
  params.layout = layout;
  params.from = in_bytes(from);
  params.to = in_bytes(to);
  std::uint64_t all = address(from) | address(to) | layout.from_offset | layout.to_offset | layout.run_bytes;
  for (std::uint32_t d = 0; d < layout.ndim; ++d) all |= layout.from_step[d] | layout.to_step[d];
  params.unit = common_unit(all);
  SLABLOAD_CUDA_NAMED(where(layout.runs * layout.run_bytes, "within the GPU"), "cudaLaunchKernel",
                      launch_relayout(params, blocks_, stream_.get()));
}

void CudaDevice::checksum_box(const Shape& shape, const Box& box, std::uint32_t element_size,
                              const std::byte* data, std::byte* sum) {
  ChecksumParams params{};
  params.box = make_box_crc(shape, box, element_size, kChecksumThreads);
  params.data = in_bytes(data);
  params.sum = reinterpret_cast<std::uint64_t*>(sum);
  params.unit =
      common_unit((address(data) + params.box.bytes) | params.box.group_bytes | params.box.row_bytes);
  SLABLOAD_CUDA_CALL(where(params.box.bytes, "to sum up"), cudaMemsetAsync, sum, 0, sizeof(std::uint64_t),
                     stream_.get());
  if (params.box.lines == 0) return;
  SLABLOAD_CUDA_NAMED(where(params.box.bytes, "to sum up"), "cudaLaunchKernel",
                      launch_checksum(params, blocks_, stream_.get()));
}

Mark CudaDevice::mark() {
  SLABLOAD_CUDA_CALL(name_, cudaEventRecord, marks_[next_ % kMarks].get(), stream_.get());
  return next_++;
}

std::optional<double> CudaDevice::passed(Mark mark) {
  if (mark >= next_ || next_ - mark > kMarks)
    fail(Status::internal, "mark {} of {} is not kept", mark, next_);
  return passed(marks_[mark % kMarks]);
}

std::optional<double> CudaDevice::passed(const Event& event) const {
  if (!has_passed(event, name_)) return std::nullopt;
  float milliseconds = 0;
  SLABLOAD_CUDA_CALL(name_, cudaEventElapsedTime, &milliseconds, clock_.get(), event.get());
  return std::min(clock_s_ + static_cast<double>(milliseconds) / 1000, now_s());
}

void CudaDevice::order_before(cudaStream_t other) {
  SLABLOAD_CUDA_CALL(name_, cudaEventRecord, order_.get(), stream_.get());
  SLABLOAD_CUDA_CALL(name_, cudaStreamWaitEvent, other, order_.get(), 0);
}

}  // namespace slabload::cuda
