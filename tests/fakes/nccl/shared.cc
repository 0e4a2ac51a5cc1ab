#include "shared.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "../cuda/hooks.h"

namespace fakenccl {
namespace {

constexpr std::size_t header_space = 4096;

std::size_t file_size(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return header_space + n * sizeof(RankBlock) + n * ring_size * sizeof(Side) +
         n * n * ring_size * sizeof(PairSides);
}

}  // namespace

FileName make_file() {
  FileName file;
  file.pid = getpid();
  file.descriptor = memfd_create("fake-nccl", MFD_CLOEXEC);
  Header header;
  if (getrandom(&header.token, sizeof header.token, 0) != sizeof header.token || file.descriptor < 0 ||
      ftruncate(file.descriptor, header_space) != 0 ||
      pwrite(file.descriptor, &header.token, sizeof header.token, 0) != sizeof header.token)
    fakecuda_violation("the NCCL double cannot make its memory file: %s", std::strerror(errno));
  file.token = header.token;
  return file;
}

void close_file(const FileName& file) {
  close(file.descriptor);
}

Shared::~Shared() {
  if (base_) munmap(base_, size_);
}

bool Shared::open(const FileName& file, int ranks) {
  const std::string path = "/proc/" + std::to_string(file.pid) + "/fd/" + std::to_string(file.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  std::uint64_t token = 0;
  // The number may stand for another file by now.
  if (pread(descriptor, &token, sizeof token, offsetof(Header, token)) != sizeof token ||
      token != file.token) {
    close(descriptor);
    return false;
  }
  int first = 0;
  void* head = mmap(nullptr, header_space, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  size_ = file_size(ranks);
  if (head != MAP_FAILED && !static_cast<Header*>(head)->ranks.compare_exchange_strong(first, ranks) &&
      first != ranks)
    fakecuda_violation("ncclCommInitRankConfig with %d ranks here, with %d on another rank of the same id",
                       ranks, first);
  if (head != MAP_FAILED) munmap(head, header_space);
  void* base = MAP_FAILED;
  // The pages that nobody touches are never there.
  if (ftruncate(descriptor, static_cast<off_t>(size_)) == 0)
    base = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  close(descriptor);
  if (base == MAP_FAILED)
    fakecuda_violation("the NCCL double cannot map its memory file: %s", std::strerror(errno));
  base_ = base;
  ranks_ = ranks;
  return true;
}

RankBlock& Shared::rank(int rank) const {
  return reinterpret_cast<RankBlock*>(static_cast<std::byte*>(base_) + header_space)[rank];
}

Side& Shared::collective(int rank, std::uint64_t sequence) const {
  const auto index = static_cast<std::uint64_t>(rank) * ring_size + sequence % ring_size;
  return reinterpret_cast<Side*>(&this->rank(ranks_))[index];
}

PairSides& Shared::pair(int from, int to, std::uint64_t sequence) const {
  const auto index = static_cast<std::uint64_t>(from * ranks_ + to) * ring_size + sequence % ring_size;
  return reinterpret_cast<PairSides*>(
      &reinterpret_cast<Side*>(&rank(ranks_))[static_cast<std::uint64_t>(ranks_) * ring_size])[index];
}

std::optional<std::uint64_t> start_time_of(int pid) {
  std::FILE* stat = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (!stat) return std::nullopt;
  char text[1024] = {};
  const std::size_t length = std::fread(text, 1, sizeof text - 1, stat);
  std::fclose(stat);
  // The name, in brackets, may hold anything; the state is the next field, the start time the 20th from
  // there.
  const char* after_name = length > 0 ? std::strrchr(text, ')') : nullptr;
  char state = 'X';
  unsigned long long ticks = 0;
  if (!after_name ||
      std::sscanf(after_name + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &ticks) != 2)
    return std::nullopt;
  if (state == 'Z' || state == 'X') return std::nullopt;
  return ticks;
}

}  // namespace fakenccl
