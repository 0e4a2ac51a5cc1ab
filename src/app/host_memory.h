// Whether the ranks of each host have the memory together that their plans need.
#pragma once

#include <cstdint>

#include "app/session.h"

namespace slabload {

// `bytes` is what this rank will hold in the host's memory. Throws Status::usage (agreed), with the host's name, if the ranks
// of one need more than it has or the job's control group allows: the system would end them in the middle of the load.
// Collective.
void check_host_memory(Session& session, std::uint64_t bytes);

}  // namespace slabload
