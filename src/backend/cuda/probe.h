// What CUDA there is on this host, found out without using a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slabload::cuda {

struct Gpu {
  std::string name;         // "NVIDIA H100 80GB HBM3"
  std::uint64_t bytes = 0;  // of memory
  std::string pci_bus_id;   // "0000:3B:00.0"; the same GPU has the same on all processes of a host
};

struct GpuProbe {
  std::string unusable;    // why there is no GPU to be had, for a user; empty if there is one
  bool broken = false;     // a call failed that does not where there simply is none
  int driver_version = 0;  // as CUDA numbers them, 13000 for 13.0; 0: no driver
  int runtime_version = 0;
  std::vector<Gpu> gpus;  // by their ordinals

  bool usable() const { return unusable.empty(); }
};

// Never throws, takes no memory of a GPU, and works without a driver.
GpuProbe probe() noexcept;

// "13.0" for 13000.
std::string version_text(int version);

}  // namespace slabload::cuda
