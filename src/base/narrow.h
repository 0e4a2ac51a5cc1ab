// Checked integer arithmetic: a value that does not fit is an error, never a wrong number.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/error.h"

namespace slabload {

// Converts between integer types; throws Status::internal if the value changes.
template <typename To, typename From>
To narrow(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  To result = static_cast<To>(value);
  if (static_cast<From>(result) != value || ((result < To{}) != (value < From{}))) {
    fail(Status::internal, "integer {} does not fit its type", value);
  }
  return result;
}

// The product, or nothing of it: false if it overflows 64 bits.
inline bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

inline bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

inline constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0);
}

// `value` rounded up to a multiple of `unit` (unit > 0).
inline constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t unit) {
  return ceil_div(value, unit) * unit;
}

// value * numerator / denominator without overflow in between (128-bit product).
inline constexpr std::uint64_t scale(std::uint64_t value, std::uint64_t numerator,
                                     std::uint64_t denominator) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(value) * numerator / denominator);
}

}  // namespace slabload
