#include "backend/host/silent_peers.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace slabload::host {
namespace {

constexpr unsigned kRepeats = 3;

// The kernel prints an address as words of 32 bits in the machine's byte order; an IPv4 one may be wrapped in an IPv6 one.
std::string address_text(const std::string& hex) {
  if (hex.size() != 8 && hex.size() != 32) return {};
  unsigned char bytes[16];
  for (std::size_t word = 0; word < hex.size() / 8; ++word) {
    const std::uint32_t value = static_cast<std::uint32_t>(std::stoul(hex.substr(word * 8, 8), nullptr, 16));
    std::memcpy(bytes + word * 4, &value, sizeof value);
  }
  static constexpr unsigned char kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool four = hex.size() == 8;
  const bool mapped = !four && std::memcmp(bytes, kMapped, sizeof kMapped) == 0;
  char text[INET6_ADDRSTRLEN] = {};
  const char* done = inet_ntop(four || mapped ? AF_INET : AF_INET6, mapped ? bytes + 12 : bytes, text, sizeof text);
  return done == nullptr ? std::string() : text;
}

std::set<std::uint64_t> own_sockets() {
  std::set<std::uint64_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    unsigned long long inode = 0;
    if (!gone && std::sscanf(target.c_str(), "socket:[%llu]", &inode) == 1) out.insert(inode);
  }
  return out;
}

}  // namespace

std::vector<std::string> silent_peers(std::string_view table, const std::set<std::uint64_t>& sockets) {
  std::set<std::string> found;
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    // sl local remote state tx:rx timer:when repeats uid timeout inode ...
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, repeats, user, timeout;
    unsigned long long inode = 0;
    if (!(fields >> number >> local >> remote >> state >> queues >> timer >> repeats >> user >> timeout >> inode)) continue;
    unsigned count = 0;
    if (std::sscanf(repeats.c_str(), "%x", &count) != 1 || count < kRepeats || !sockets.contains(inode)) continue;
    const std::string hex = remote.substr(0, remote.find(':'));
    if (hex.find_first_not_of("0123456789ABCDEFabcdef") != std::string::npos) continue;
    if (std::string text = address_text(hex); !text.empty()) found.insert(std::move(text));
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> silent_peers() noexcept {
  try {
    const std::set<std::uint64_t> sockets = own_sockets();
    std::string table;
    for (const char* name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
      std::ifstream file(name);
      table.append(std::istreambuf_iterator<char>(file), {});
    }
    return silent_peers(table, sockets);
  } catch (...) {
    return {};
  }
}

}  // namespace slabload::host
