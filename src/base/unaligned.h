// Numbers of 1 to 8 bytes in memory, little-endian, at any address; on a host and in a kernel.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/host_device.h"

namespace slabload {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// The largest of 8, 4, 2, 1 that divides all that is or'ed into `bits`: addresses, lengths and steps.
SLABLOAD_HD inline std::uint32_t common_unit(std::uint64_t bits) {
  std::uint64_t lowest = (bits | 8) & ~((bits | 8) - 1);
  return static_cast<std::uint32_t>(lowest);
}

namespace detail {

// Accesses of the word's width; on a host, where a pointer's type binds, the compiler makes them of memcpy.
template <typename Word>
SLABLOAD_HD inline std::uint64_t load_word(const unsigned char* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Word*>(at);
#else
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
#endif
}

template <typename Word>
SLABLOAD_HD inline void store_word(unsigned char* at, std::uint64_t bits) {
  auto word = static_cast<Word>(bits);
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Word*>(at) = word;
#else
  std::memcpy(at, &word, sizeof word);
#endif
}

}  // namespace detail

// The number of `size` bytes (1 to 8) at `at`. `unit` (1, 2, 4 or 8) divides the address: with unit >= size =
// 2, 4 or 8 it is one access.
SLABLOAD_HD inline std::uint64_t load_bits(const unsigned char* at, std::uint32_t size, std::uint32_t unit) {
  if (unit >= size) {
    switch (size) {
      case 1:
        return *at;
      case 2:
        return detail::load_word<std::uint16_t>(at);
      case 4:
        return detail::load_word<std::uint32_t>(at);
      case 8:
        return detail::load_word<std::uint64_t>(at);
      default:
        break;
    }
  }
  std::uint64_t bits = 0;
  for (std::uint32_t i = size; i-- > 0;) bits = bits << 8 | at[i];
  return bits;
}

// Puts the lowest `size` bytes of `bits` at `at`.
SLABLOAD_HD inline void store_bits(unsigned char* at, std::uint64_t bits, std::uint32_t size,
                                   std::uint32_t unit) {
  if (unit >= size) {
    switch (size) {
      case 1:
        *at = static_cast<unsigned char>(bits);
        return;
      case 2:
        return detail::store_word<std::uint16_t>(at, bits);
      case 4:
        return detail::store_word<std::uint32_t>(at, bits);
      case 8:
        return detail::store_word<std::uint64_t>(at, bits);
      default:
        break;
    }
  }
  for (std::uint32_t i = 0; i < size; ++i) at[i] = static_cast<unsigned char>(bits >> (8 * i));
}

}  // namespace slabload
