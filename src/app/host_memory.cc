#include "app/host_memory.h"

#include <algorithm>

#include "backend/host/memory_limit.h"
#include "base/bytes.h"
#include "base/error.h"

namespace slabload {

void check_host_memory(Session& session, std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // more than a host has, and the sum of all its ranks' is no overflow
  std::uint64_t need = std::min(bytes, kMost), limit = host::memory_limit();
  mpi::MpiControl node(mpi::Comm::split_by_node(session.world()).get());
  node.sum({&need, 1});
  node.min({&limit, 1});
  together(session.control(), [&] {
    if (!session.leads_node() || need <= limit) return;
    fail(Status::usage,
         "host {}: the ranks there ({}) need {} of memory for shards and staging, and the host, or the job's limit there, has "
         "{}: load on more hosts, or in a layout that leaves less on each rank",
         printable(node.host()), node.ranks(), format_bytes(need), format_bytes(limit));
  });
}

}  // namespace slabload
