#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "violation.h"

namespace fakecuda {
namespace {

std::byte* map(int descriptor, std::uint64_t bytes, int protection) {
  void* mapped = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (mapped == MAP_FAILED) violation("the double cannot map its memory: %s", std::strerror(errno));
  madvise(mapped, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(mapped);
}

}  // namespace

Arena::Arena(const char* name) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
  if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
    violation("the double cannot make its memory file: %s", std::strerror(errno));
  base_ = reinterpret_cast<std::uint64_t>(map(descriptor_, size, PROT_NONE));
  alias_ = map(descriptor_, size, PROT_READ | PROT_WRITE);
}

std::uint64_t Arena::take(std::uint64_t bytes) {
  bytes = page_ceil(bytes);
  if (bytes > size - taken_)
    violation("the double is out of addresses: %zu bytes in all", std::size_t{taken_});
  const std::uint64_t address = base_ + taken_;
  taken_ += bytes;
  return address;
}

void Arena::release(std::uint64_t address, std::uint64_t bytes) {
  fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset(address)),
            static_cast<off_t>(page_ceil(bytes)));
}

void Arena::protect(std::uint64_t address, std::uint64_t bytes, int protection) {
  if (mprotect(reinterpret_cast<void*>(address), bytes, protection) != 0)
    violation("the double cannot protect memory: %s", std::strerror(errno));
}

}  // namespace fakecuda
