#include "tensor/cast.h"

#include <cstring>

#include "base/error.h"

namespace slabload {
namespace {

// A floating number taken apart: (-1)^sign * significand * 2^exponent, or one of the special kinds.
struct Parts {
  bool sign;
  enum class Kind : std::uint8_t { finite, infinite, nan } kind;
  std::uint64_t significand;  // for nan: the mantissa, left-aligned to 63 bits
  int exponent;
};

inline Parts take_apart(std::uint64_t bits, FloatFormat format, bool has_infinity) {
  Parts parts{};
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  int exponent = static_cast<int>((bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1));
  parts.sign = (bits >> (format.mantissa_bits + format.exponent_bits)) & 1;
  int top = (1 << format.exponent_bits) - 1;
  std::uint64_t all_ones = (std::uint64_t{1} << format.mantissa_bits) - 1;
  if (exponent == top && (has_infinity || mantissa == all_ones)) {
    parts.kind = has_infinity && mantissa == 0 ? Parts::Kind::infinite : Parts::Kind::nan;
    parts.significand = mantissa << (63 - format.mantissa_bits);
    return parts;
  }
  parts.kind = Parts::Kind::finite;
  parts.significand = exponent == 0 ? mantissa : mantissa | (std::uint64_t{1} << format.mantissa_bits);
  parts.exponent = (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits;
  return parts;
}

// Round to nearest, ties to even.
inline std::uint64_t shift_right_rounded(std::uint64_t value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift > 63) return 0;  // below half of the smallest step: significands have at most 53 bits
  std::uint64_t half = std::uint64_t{1} << (shift - 1);
  std::uint64_t rest = value & ((half << 1) - 1);
  std::uint64_t kept = value >> shift;
  return kept + (rest > half || (rest == half && (kept & 1)));
}

inline std::uint64_t put_together(Parts parts, FloatFormat format) {
  std::uint64_t sign = std::uint64_t{parts.sign} << (format.mantissa_bits + format.exponent_bits);
  std::uint64_t infinity = ((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  if (parts.kind == Parts::Kind::infinite) return sign | infinity;
  if (parts.kind == Parts::Kind::nan) {
    std::uint64_t quiet = std::uint64_t{1} << (format.mantissa_bits - 1);
    return sign | infinity | quiet | (parts.significand >> (63 - format.mantissa_bits));
  }
  if (parts.significand == 0) return sign;
  int top_bit = 63 - __builtin_clzll(parts.significand);
  // The exponent of the result's last place: as high as the top bit asks, but no lower than the subnormals'.
  int lowest = 1 - format.bias - format.mantissa_bits;
  int last_place = top_bit + parts.exponent - format.mantissa_bits;
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

inline std::uint64_t load(const unsigned char* at, std::uint32_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, size);
  return bits;
}

}  // namespace

void swap_bytes(void* data, std::uint64_t count, std::uint32_t size) {
  auto* bytes = static_cast<unsigned char*>(data);
  auto swap_all = [&](auto word, auto reverse) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(&word, bytes + i * sizeof word, sizeof word);
      word = reverse(word);
      std::memcpy(bytes + i * sizeof word, &word, sizeof word);
    }
  };
  switch (size) {
    case 1:
      break;
    case 2:
      swap_all(std::uint16_t{}, [](std::uint16_t w) { return __builtin_bswap16(w); });
      break;
    case 4:
      swap_all(std::uint32_t{}, [](std::uint32_t w) { return __builtin_bswap32(w); });
      break;
    case 8:
      swap_all(std::uint64_t{}, [](std::uint64_t w) { return __builtin_bswap64(w); });
      break;
    default:
      fail(Status::internal, "no byte order for elements of {} bytes", size);
  }
}

bool can_cast(DType from, DType to) {
  return is_float(from) && (to == DType::f32 || to == DType::f16 || to == DType::bf16);
}

bool is_narrowing(DType from, DType to) {
  FloatFormat a = float_format(from);
  FloatFormat b = float_format(to);
  return a.exponent_bits > b.exponent_bits || a.mantissa_bits > b.mantissa_bits;
}

void cast_elements(DType from, DType to, const void* in, std::uint64_t count, void* out) {
  const auto* source = static_cast<const unsigned char*>(in);
  auto* target = static_cast<unsigned char*>(out);
  std::uint32_t source_size = dtype_size(from);
  std::uint32_t target_size = dtype_size(to);
  if (from == to) {
    std::memcpy(out, in, count * source_size);
    return;
  }
  if (from == DType::bf16 && to == DType::f32) {
    // bf16 is the upper half of f32; the general way gives the same bits but for the quiet bit of NaNs.
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint32_t bits = static_cast<std::uint32_t>(load(source + 2 * i, 2)) << 16;
      if ((bits & 0x7fffffff) > 0x7f800000) bits |= 0x00400000;
      std::memcpy(target + 4 * i, &bits, 4);
    }
    return;
  }
  if (from == DType::f32 && to == DType::bf16) {
    for (std::uint64_t i = 0; i < count; ++i) {
      auto bits = static_cast<std::uint32_t>(load(source + 4 * i, 4));
      bool nan = (bits & 0x7fffffff) > 0x7f800000;
      std::uint32_t rounded = nan ? bits | 0x00400000 : bits + 0x7fff + ((bits >> 16) & 1);
      auto upper = static_cast<std::uint16_t>(rounded >> 16);
      std::memcpy(target + 2 * i, &upper, 2);
    }
    return;
  }
  FloatFormat source_format = float_format(from);
  FloatFormat target_format = float_format(to);
  bool has_infinity = from != DType::f8_e4m3;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t bits = load(source + i * source_size, source_size);
    bits = put_together(take_apart(bits, source_format, has_infinity), target_format);
    std::memcpy(target + i * target_size, &bits, target_size);
  }
}

}  // namespace slabload
