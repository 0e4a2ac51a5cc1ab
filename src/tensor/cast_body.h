// The cast of one element, for hosts and kernels: exact, on bit patterns (see tensor/cast.h for the rules).
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "tensor/dtype.h"

namespace slabload {

// bf16 is the upper half of f32; both ways give what cast_general gives.
SLABLOAD_HD inline std::uint32_t cast_bf16_to_f32(std::uint32_t bits) {
  bits <<= 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x00400000 : bits;
}

SLABLOAD_HD inline std::uint32_t cast_f32_to_bf16(std::uint32_t bits) {
  bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return (nan ? bits | 0x00400000 : bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// From which type to which, as numbers that a kernel can be given.
struct CastRule {
  enum class Way : std::uint8_t { bf16_to_f32, f32_to_bf16, general } way;
  bool has_infinity;  // the type that is cast from
  std::uint32_t from_size;
  std::uint32_t to_size;
  FloatFormat from;
  FloatFormat to;
};

namespace detail {

// A floating number taken apart: (-1)^sign * significand * 2^exponent, or one of the special kinds.
struct FloatParts {
  bool sign;
  enum class Kind : std::uint8_t { finite, infinite, nan } kind;
  std::uint64_t significand;  // for nan: the mantissa, left-aligned to 63 bits
  int exponent;
};

SLABLOAD_HD inline FloatParts take_apart(std::uint64_t bits, FloatFormat format, bool has_infinity) {
  FloatParts parts{};
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  int exponent = static_cast<int>((bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1));
  parts.sign = (bits >> (format.mantissa_bits + format.exponent_bits)) & 1;
  int top = (1 << format.exponent_bits) - 1;
  std::uint64_t all_ones = (std::uint64_t{1} << format.mantissa_bits) - 1;
  if (exponent == top && (has_infinity || mantissa == all_ones)) {
    parts.kind = has_infinity && mantissa == 0 ? FloatParts::Kind::infinite : FloatParts::Kind::nan;
    parts.significand = mantissa << (63 - format.mantissa_bits);
    return parts;
  }
  parts.kind = FloatParts::Kind::finite;
  parts.significand = exponent == 0 ? mantissa : mantissa | (std::uint64_t{1} << format.mantissa_bits);
  parts.exponent = (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits;
  return parts;
}

// Round to nearest, ties to even.
SLABLOAD_HD inline std::uint64_t shift_right_rounded(std::uint64_t value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift > 63) return 0;  // below half of the smallest step: significands have at most 53 bits
  std::uint64_t half = std::uint64_t{1} << (shift - 1);
  std::uint64_t rest = value & ((half << 1) - 1);
  std::uint64_t kept = value >> shift;
  return kept + (rest > half || (rest == half && (kept & 1)));
}

SLABLOAD_HD inline std::uint64_t put_together(FloatParts parts, FloatFormat format) {
  std::uint64_t sign = std::uint64_t{parts.sign} << (format.mantissa_bits + format.exponent_bits);
  std::uint64_t infinity = ((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  if (parts.kind == FloatParts::Kind::infinite) return sign | infinity;
  if (parts.kind == FloatParts::Kind::nan) {
    std::uint64_t quiet = std::uint64_t{1} << (format.mantissa_bits - 1);
    return sign | infinity | quiet | (parts.significand >> (63 - format.mantissa_bits));
  }
  if (parts.significand == 0) return sign;
  // The exponent of the result's last place: as high as the top bit asks, but no lower than the subnormals'.
  int lowest = 1 - format.bias - format.mantissa_bits;
  int last_place = highest_bit(parts.significand) + parts.exponent - format.mantissa_bits;
  if (last_place < lowest) last_place = lowest;
  std::uint64_t rounded = shift_right_rounded(parts.significand, last_place - parts.exponent);
  // A carry out of the mantissa moves into the exponent field by itself: that is what the encoding is made
  // for.
  std::uint64_t hidden = std::uint64_t{1} << format.mantissa_bits;
  std::uint64_t magnitude = rounded;
  if (rounded >= hidden) {
    auto field = static_cast<std::uint64_t>(last_place + format.mantissa_bits + format.bias);
    magnitude = rounded - hidden + (field << format.mantissa_bits);
  }
  return sign | (magnitude >= infinity ? infinity : magnitude);
}

}  // namespace detail

// Any floating type to any whose infinity and NaNs are IEEE's.
SLABLOAD_HD inline std::uint64_t cast_general(std::uint64_t bits, const CastRule& rule) {
  return detail::put_together(detail::take_apart(bits, rule.from, rule.has_infinity), rule.to);
}

SLABLOAD_HD inline std::uint64_t cast_bits(std::uint64_t bits, const CastRule& rule) {
  switch (rule.way) {
    case CastRule::Way::bf16_to_f32:
      return cast_bf16_to_f32(static_cast<std::uint32_t>(bits));
    case CastRule::Way::f32_to_bf16:
      return cast_f32_to_bf16(static_cast<std::uint32_t>(bits));
    default:
      return cast_general(bits, rule);
  }
}

}  // namespace slabload
