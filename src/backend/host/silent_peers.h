// Hosts that no longer answer, as the kernel sees it: a help to say why a job stands still.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace slabload::host {

// The addresses, ascending, at the other ends of those sockets of `table` (the text of /proc/net/tcp or tcp6) whose
// inode is in `sockets` and to which the kernel has sent the same bytes again at least three times. Lines that are not
// understood are left out.
std::vector<std::string> silent_peers(std::string_view table, const std::set<std::uint64_t>& sockets);

// The same for all TCP sockets of this process; empty where the system does not tell. Never throws.
std::vector<std::string> silent_peers() noexcept;

}  // namespace slabload::host
