#include "backend/host/memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/narrow.h"

namespace slabload::host {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// The least number in the files `name` of a group's folder and of those above it; "max" is none.
std::uint64_t least_above(const std::string& hierarchy, const std::string& group, const char* name) {
  std::uint64_t least = kNoLimit;
  for (std::filesystem::path at = group;; at = at.parent_path()) {
    std::ifstream file(hierarchy + at.string() + "/" + name);
    if (std::uint64_t bytes = 0; file >> bytes) least = std::min(least, bytes);
    if (at == at.parent_path()) return least;
  }
}

std::uint64_t group_limit(const std::string& root) {
  std::uint64_t least = kNoLimit;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // NUMBER:CONTROLLERS:GROUP, the second version's without controllers
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", group = line.substr(second + 1);
    if (controllers == ",,") {
      least = std::min(least, least_above(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, least_above(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace

std::uint64_t memory_limit(const std::string& root) {
  std::uint64_t memory = 0, swap = 0;
  std::ifstream info(root + "/proc/meminfo");
  for (std::string line; std::getline(info, line);) {  // NAME: NUMBER kB
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (!(words >> name >> kib)) continue;
    if (name == "MemTotal:") memory = kib << 10;
    if (name == "SwapTotal:") swap = kib << 10;
  }
  if (memory == 0) memory = kNoLimit;
  std::uint64_t sum = 0;
  return checked_add(std::min(memory, group_limit(root)), swap, &sum) ? sum : kNoLimit;
}

}  // namespace slabload::host
