#include "tensor/cast.h"

#include <cstring>

#include "base/error.h"

namespace slabload {
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

CastRule cast_rule(DType from, DType to) {
  CastRule rule{};
  rule.way = CastRule::Way::general;
  if (from == DType::bf16 && to == DType::f32) rule.way = CastRule::Way::bf16_to_f32;
  if (from == DType::f32 && to == DType::bf16) rule.way = CastRule::Way::f32_to_bf16;
  rule.has_infinity = from != DType::f8_e4m3;
  rule.from_size = dtype_size(from);
  rule.to_size = dtype_size(to);
  rule.from = float_format(from);
  rule.to = float_format(to);
  return rule;
}

void cast_elements(DType from, DType to, const void* in, std::uint64_t count, void* out) {
  const auto* source = static_cast<const unsigned char*>(in);
  auto* target = static_cast<unsigned char*>(out);
  if (from == to) {
    std::memcpy(out, in, count * dtype_size(from));
    return;
  }
  CastRule rule = cast_rule(from, to);
  switch (rule.way) {
    case CastRule::Way::bf16_to_f32:
      for (std::uint64_t i = 0; i < count; ++i) {
        std::uint16_t half;
        std::memcpy(&half, source + 2 * i, 2);
        std::uint32_t bits = cast_bf16_to_f32(half);
        std::memcpy(target + 4 * i, &bits, 4);
      }
      return;
    case CastRule::Way::f32_to_bf16:
      for (std::uint64_t i = 0; i < count; ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, source + 4 * i, 4);
        auto half = static_cast<std::uint16_t>(cast_f32_to_bf16(bits));
        std::memcpy(target + 2 * i, &half, 2);
      }
      return;
    case CastRule::Way::general:
      for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, source + i * rule.from_size, rule.from_size);
        bits = cast_general(bits, rule);
        std::memcpy(target + i * rule.to_size, &bits, rule.to_size);
      }
      return;
  }
}

}  // namespace slabload
