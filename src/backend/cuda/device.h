// An NVIDIA GPU as a device. Its queue is one CUDA stream, the load stream.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/handle.h"
#include "backend/device.h"
#include "tensor/relayout_body.h"

namespace slabload::cuda {

// One per process; all calls come from the thread that made it, on which its GPU is the current device. After
// warm_up nothing is created or loaded any more but by allocate and allocate_staging. A CUDA call that fails
// throws Status::peer with CUDA's text; the destructors of what is left then do what they still can, and
// neither throw nor wait.
class CudaDevice final : public Device {
 public:
  // Takes GPU `ordinal` of those that CUDA shows this process. Throws Status::peer.
  explicit CudaDevice(int ordinal);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::unique_ptr<DeviceMemory> allocate(std::uint64_t bytes, const char* purpose) override;
  void require(std::uint64_t bytes, const std::string& what) override;
  std::unique_ptr<DeviceMemory> allocate_staging(std::uint64_t bytes, const char* purpose) override;
  void abandon() noexcept override { usage_->abandoned = true; }
  bool host_accessible() const override { return false; }
  void prepare(std::byte*, std::uint64_t) override {}
  // To be called once, before the first operation. Returns when the GPU has run one of each.
  void warm_up() override;

  void copy_in(const std::byte* host, std::byte* to, std::uint64_t bytes) override;
  void copy_out(const std::byte* from, std::byte* host, std::uint64_t bytes) override;
  void cast(DType from, DType to, const std::byte* in, std::uint64_t count, std::byte* out) override;
  void copy_box(std::uint32_t element_size, const Box& box, const std::byte* from, const Box& from_box,
                std::byte* to, const Box& to_box) override;
  void checksum_box(const Shape& shape, const Box& box, std::uint32_t element_size, const std::byte* data,
                    std::byte* sum) override;
  Mark mark() override;
  std::optional<double> passed(Mark mark) override;

  std::uint64_t peak_bytes() const override { return usage_->peak; }
  // "cuda (NVIDIA H100 80GB HBM3, one per rank)".
  std::string description() const override;

  // ---- for the NCCL adapter

  int ordinal() const { return ordinal_; }
  cudaStream_t stream() const { return stream_.get(); }
  // What `other` gets from now on waits for all that this queue holds by now.
  void order_before(cudaStream_t other);
  // When an event that was made with timing has passed, in seconds as now_s() counts; nothing until then.
  // Never blocks.
  std::optional<double> passed(const Event& event) const;
  // Device memory that is free, and all there is, in bytes, as CUDA counts them.
  struct Memory {
    std::uint64_t free;
    std::uint64_t total;
  };
  Memory memory() const;
  std::uint64_t free_bytes() const { return memory().free; }
  // "GPU 3 (NVIDIA H100 80GB HBM3)".
  const std::string& name() const { return name_; }

 private:
  static constexpr std::size_t kMarks = 128;

  void set_clock();
  void copy(const std::byte* from, std::byte* to, std::uint64_t bytes, cudaMemcpyKind kind, const char* what);
  void copy_runs(const Relayout& layout, const std::byte* from, std::byte* to);
  std::string where(std::uint64_t bytes, const std::string& what) const;

  int ordinal_;
  std::string model_;
  std::string name_;
  unsigned blocks_ = 1;  // of a kernel at most: enough to keep the GPU busy
  std::shared_ptr<Usage> usage_ = std::make_shared<Usage>();
  Stream stream_;
  Event order_;
  Event clock_;         // the event whose time on the host is known
  double clock_s_ = 0;  // that time
  std::array<Event, kMarks> marks_;
  Mark next_ = 0;
  std::unique_ptr<DeviceMemory> scratch_;  // for warm_up alone
};

}  // namespace slabload::cuda
