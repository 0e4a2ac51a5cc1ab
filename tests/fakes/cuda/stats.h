// Figures of this process, and the look at what is left when it exits.
#pragma once

#include <cstdint>
#include <string>

namespace fakecuda {

// Adds to a figure: "h2d", "d2h", "d2d", "nccl_allgather", "nccl_broadcast", "nccl_send" and "nccl_recv" are
// written under "bytes", any other under "figures".
void count_figure(const std::string& figure, std::uint64_t amount);

// From now on, the end of this process writes the figures and ends in a violation if something is left. Only
// a process that made a call has anything to say, and a child that it forked has not.
void watch_exit();

}  // namespace fakecuda
