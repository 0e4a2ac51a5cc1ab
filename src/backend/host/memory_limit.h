// How much memory the processes of a host can have.
#pragma once

#include <cstdint>
#include <string>

namespace slabload::host {

// Bytes: the host's memory, or the least that a control group above this process allows (Slurm's and a container's limits are
// such), and the host's swap. The largest number if the system does not say. `root` is where /proc and /sys lie, for tests.
std::uint64_t memory_limit(const std::string& root = "");

}  // namespace slabload::host
