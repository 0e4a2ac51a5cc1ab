// The host as a device: memory of this process.
#pragma once

#include "backend/device.h"

namespace slabload::host {

// Its queue runs at once, so every mark has passed when it is made.
class HostDevice final : public Device {
 public:
  // Anonymous memory with huge pages advised: filling fresh small pages costs more than the read does. A page
  // is the process's only once it is touched. Throws Status::usage if the system has no such memory.
  std::unique_ptr<DeviceMemory> allocate(std::uint64_t bytes, const char* purpose) override;
  std::unique_ptr<DeviceMemory> allocate_staging(std::uint64_t bytes, const char* purpose) override;
  bool host_accessible() const override { return true; }
  void prepare(std::byte* data, std::uint64_t bytes) override;
  void warm_up() override {}

  void copy_in(const std::byte* host, std::byte* to, std::uint64_t bytes) override;
  void copy_out(const std::byte* from, std::byte* host, std::uint64_t bytes) override;
  void cast(DType from, DType to, const std::byte* in, std::uint64_t count, std::byte* out) override;
  void copy_box(std::uint32_t element_size, const Box& box, const std::byte* from, const Box& from_box,
                std::byte* to, const Box& to_box) override;
  void checksum_box(const Shape& shape, const Box& box, std::uint32_t element_size, const std::byte* data,
                    std::byte* sum) override;
  Mark mark() override;
  std::optional<double> passed(Mark mark) override;

  std::uint64_t peak_bytes() const override { return 0; }
  std::string description() const override { return "host"; }

 private:
  static constexpr std::uint64_t kMarks = 128;  // of which the times are kept
  double marked_s_[kMarks] = {};
  Mark next_ = 0;
};

// The most memory the process has had resident, bytes, as the kernel counted it (VmHWM); 0 if it does not
// say.
std::uint64_t peak_resident_bytes();
// Starts that count anew, where the kernel allows it.
void reset_peak_resident();

}  // namespace slabload::host
