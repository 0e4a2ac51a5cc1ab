#include "app/host_memory.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "backend/host/memory_limit.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload {
namespace {

struct Need {
  std::uint64_t node, bytes, limit;
};

struct HostNeed {
  std::string name;
  std::uint64_t ranks = 0, bytes = 0, limit = 0;
};

}  // namespace

void check_host_memory(Session& session, std::uint64_t bytes) {
  Control& control = session.control();
  const Need mine{static_cast<std::uint64_t>(session.node()), bytes, host::memory_limit()};
  const std::vector<std::string> all =
      control.gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine) + control.host());
  together(control, [&] {
    std::map<std::uint64_t, HostNeed> hosts;
    for (const std::string& text : all) {
      Need one;
      std::memcpy(&one, text.data(), sizeof one);
      HostNeed& host = hosts[one.node];
      if (host.ranks++ == 0) host.name = text.substr(sizeof one), host.limit = one.limit;
      if (!checked_add(host.bytes, one.bytes, &host.bytes)) host.bytes = UINT64_MAX;
      host.limit = std::min(host.limit, one.limit);
    }
    for (const auto& [node, host] : hosts) {
      if (host.bytes <= host.limit) continue;
      fail(Status::usage,
           "host {}: its {} rank{} need{} {} of memory for shards and staging, and the host, or the job's limit there, has {}: "
           "load on more hosts, or in a layout that leaves less on each rank",
           printable(host.name), host.ranks, host.ranks == 1 ? "" : "s", host.ranks == 1 ? "s" : "", format_bytes(host.bytes),
           format_bytes(host.limit));
    }
  });
}

}  // namespace slabload
