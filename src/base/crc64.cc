#include "base/crc64.h"

#include <isa-l/crc64.h>

#include "base/crc64_body.h"

namespace slabload {
namespace {

constexpr Crc64Powers kPowers = make_crc64_powers();

}  // namespace

const Crc64Powers& crc64_powers() {
  return kPowers;
}

std::uint64_t crc64_part(const void* data, std::size_t size) {
  // ISA-L inverts its seed and its result; seeding with all ones cancels the first, ~ the second.
  return ~crc64_ecma_refl(~std::uint64_t{0}, static_cast<const unsigned char*>(data), size);
}

std::uint64_t crc64_shift(std::uint64_t crc, std::uint64_t zeros) {
  return crc64_shift(kPowers, crc, zeros);
}

std::uint64_t crc64_repeat(std::uint64_t crc, std::uint64_t size, std::uint64_t count) {
  std::uint64_t all = 0;
  // By the binary digits of `count`; each turn doubles the part.
  for (; count != 0; count >>= 1) {
    if (count & 1) all = crc64_append(all, crc, size);
    if (count == 1) break;
    crc = crc64_append(crc, crc, size);
    size *= 2;
  }
  return all;
}

std::uint64_t crc64_finish(std::uint64_t linear, std::uint64_t size) {
  return ~(linear ^ crc64_shift(~std::uint64_t{0}, size));
}

}  // namespace slabload
