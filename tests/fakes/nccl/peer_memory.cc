#include "peer_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

namespace fakenccl {
namespace {

// Opened once for each process and kept: a device's memory file stays the same.
int open_file(int pid, int descriptor) {
  static auto* const opened = new std::map<std::pair<int, int>, int>;
  const auto known = opened->find({pid, descriptor});
  if (known != opened->end()) return known->second;
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) opened->emplace(std::pair(pid, descriptor), file);
  return file;
}

}  // namespace

bool read_peer(int pid, int descriptor, std::uint64_t offset, std::byte* to, std::uint64_t bytes) {
  const int file = open_file(pid, descriptor);
  while (bytes > 0) {
    const ssize_t got = pread(file, to, bytes, static_cast<off_t>(offset));
    if (got <= 0) return false;
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

}  // namespace fakenccl
