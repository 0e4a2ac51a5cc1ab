// Device memory of other processes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fakenccl {

// Copies from the memory file that process `pid` has open as `descriptor`. False if that process is gone.
bool read_peer(int pid, int descriptor, std::uint64_t offset, std::byte* to, std::uint64_t bytes);

}  // namespace fakenccl
