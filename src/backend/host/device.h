// The host as a device: memory of this process.
#pragma once

#include "backend/device.h"

namespace slabload::host {

class HostDevice final : public Device {
 public:
  // Anonymous memory with huge pages advised: filling fresh small pages costs more than the read does. A page
  // is the process's only once it is touched. Throws Status::usage if the system has no such memory.
  std::unique_ptr<DeviceMemory> allocate(std::uint64_t bytes, const char* purpose) override;
  void prepare(std::byte* data, std::uint64_t bytes) override;
  void copy_box(std::uint32_t element_size, const Box& box, const std::byte* from, const Box& from_box,
                std::byte* to, const Box& to_box) override;
  std::string description() const override { return "host"; }
};

// The most memory the process has had resident, bytes, as the kernel counted it (VmHWM); 0 if it does not
// say.
std::uint64_t peak_resident_bytes();
// Starts that count anew, where the kernel allows it.
void reset_peak_resident();

}  // namespace slabload::host
