// What should be in memory at the end, worked out anew and in the plainest way: the values' formula,
// torch.chunk's rule on lists of indices, and conversions by arithmetic. Nothing here calls the code it is
// compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace slabload::testing {

inline std::uint64_t mix64(std::uint64_t x) {
  std::uint64_t z = x + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// The bits of element i of a generated tensor, as tensor/synthetic.h describes them.
inline std::uint64_t formula_bits(std::uint64_t seed, const std::string& name, DType dtype, std::uint64_t i) {
  std::uint64_t key = 14695981039346656037ULL ^ mix64(seed);
  for (unsigned char c : name) key = (key ^ c) * 1099511628211ULL;
  std::uint64_t size = dtype_size(dtype);
  std::uint64_t bits = mix64(key + i * size / 8) >> (8 * (i * size % 8));
  if (size < 8) bits &= (std::uint64_t{1} << (8 * size)) - 1;
  auto cleared = [&](std::uint64_t magnitude, std::uint64_t infinity, std::uint64_t top) {
    return (bits & magnitude) > infinity ? bits & ~top : bits;
  };
  switch (dtype) {
    case DType::boolean:
      return bits & 1;
    case DType::f64:
      return cleared(0x7fffffffffffffff, 0x7ff0000000000000, 0x4000000000000000);
    case DType::f32:
      return cleared(0x7fffffff, 0x7f800000, 0x40000000);
    case DType::bf16:
      return cleared(0x7fff, 0x7f80, 0x4000);
    case DType::f16:
      return cleared(0x7fff, 0x7c00, 0x4000);
    case DType::f8_e4m3:
      return cleared(0x7f, 0x7e, 0x40);
    case DType::f8_e5m2:
      return cleared(0x7f, 0x7c, 0x40);
    default:
      return bits;
  }
}

// The first `size` bytes of a number, little-endian.
inline void append_bits(std::string& out, std::uint64_t bits, std::uint64_t size) {
  for (std::uint64_t i = 0; i < size; ++i) out += static_cast<char>(bits >> (8 * i));
}

inline std::string formula_bytes(std::uint64_t seed, const std::string& name, DType dtype,
                                 std::uint64_t elements) {
  std::string out;
  for (std::uint64_t i = 0; i < elements; ++i)
    append_bits(out, formula_bits(seed, name, dtype, i), dtype_size(dtype));
  return out;
}

// The indices of each dimension that a rank holds: every dimension's list is chunked by each mesh axis that
// shards it, from the outermost in. `dims[a]` is the dimension that axis a shards, -1 for none, strided_code(d, f) for
// SS(d,f).
inline constexpr int kFlatCode = -2;
constexpr int strided_code(int dim, int factor) { return 100 * factor + dim; }
using IndexLists = std::vector<std::vector<std::uint64_t>>;
inline IndexLists reference_indices(const std::vector<std::uint64_t>& shape,
                                    const std::vector<std::uint64_t>& mesh, const std::vector<int>& dims,
                                    std::uint64_t rank) {
  std::vector<std::uint64_t> coordinate(mesh.size());
  for (std::size_t a = mesh.size(); a-- > 0; rank /= mesh[a]) coordinate[a] = rank % mesh[a];
  IndexLists lists(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    for (std::uint64_t i = 0; i < shape[d]; ++i) lists[d].push_back(i);
  }
  for (std::size_t a = 0; a < mesh.size(); ++a) {
    if (dims[a] < 0) continue;
    std::vector<std::uint64_t>& list = lists[static_cast<std::size_t>(dims[a] % 100)];
    // Cut into `factor` chunks (one, if it is not strided), and a part taken of each.
    const auto factor = static_cast<std::size_t>(std::max(1, dims[a] / 100));
    const std::size_t chunk = (list.size() + factor - 1) / factor;
    std::vector<std::uint64_t> kept;
    for (std::size_t begin = 0; begin < list.size(); begin += chunk) {
      const std::size_t length = std::min(chunk, list.size() - begin);
      const std::size_t part = (length + mesh[a] - 1) / mesh[a];
      for (std::size_t i = 0; i < length; ++i) {
        if (i / part == coordinate[a]) kept.push_back(list[begin + i]);
      }
    }
    list = std::move(kept);
  }
  return lists;
}

// The flat indices of all elements that the lists select, row-major.
inline std::vector<std::uint64_t> reference_elements(const std::vector<std::uint64_t>& shape,
                                                     const IndexLists& lists) {
  std::vector<std::uint64_t> flat{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::uint64_t> next;
    for (std::uint64_t prefix : flat) {
      for (std::uint64_t i : lists[d]) next.push_back(prefix * shape[d] + i);
    }
    flat = std::move(next);
  }
  return flat;
}

// The flat indices of the elements that a rank holds, in the order of its memory; with kFlatCode on an axis the tensor's
// own elements are cut evenly.
inline std::vector<std::uint64_t> reference_held(const std::vector<std::uint64_t>& shape,
                                                 const std::vector<std::uint64_t>& mesh,
                                                 const std::vector<int>& dims, std::uint64_t rank) {
  std::uint64_t inner = 1;
  for (std::size_t a = mesh.size(); a-- > 0; inner *= mesh[a]) {
    if (dims[a] != kFlatCode) continue;
    std::uint64_t total = 1;
    for (std::uint64_t length : shape) total *= length;
    const std::uint64_t step = (total + mesh[a] - 1) / mesh[a];
    const std::uint64_t part = rank / inner % mesh[a];
    std::vector<std::uint64_t> held;
    for (std::uint64_t i = part * step; i < std::min(total, (part + 1) * step); ++i) held.push_back(i);
    return held;
  }
  return reference_elements(shape, reference_indices(shape, mesh, dims, rank));
}

struct FloatBits {
  int exponent, mantissa;
};
inline FloatBits float_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {11, 52};
    case DType::f32:
      return {8, 23};
    case DType::f16:
      return {5, 10};
    case DType::bf16:
      return {8, 7};
    case DType::f8_e4m3:
      return {4, 3};
    default:
      return {5, 2};
  }
}

// The value of a pattern that is no NaN.
inline double float_value(DType dtype, std::uint64_t bits) {
  auto [e, m] = float_bits(dtype);
  int bias = (1 << (e - 1)) - 1;
  auto exponent = static_cast<int>((bits >> m) & ((std::uint64_t{1} << e) - 1));
  auto mantissa = static_cast<double>(bits & ((std::uint64_t{1} << m) - 1));
  double value;
  if (exponent == (1 << e) - 1 && dtype != DType::f8_e4m3) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - m);
  } else {
    value = std::ldexp(mantissa + std::ldexp(1.0, m), exponent - bias - m);
  }
  return (bits >> (e + m)) & 1 ? -value : value;
}

// The pattern of f32, f16 or bf16 nearest to a value, ties to the even one.
inline std::uint64_t float_pattern(DType dtype, double value) {
  auto [e, m] = float_bits(dtype);
  int bias = (1 << (e - 1)) - 1;
  std::uint64_t sign = std::signbit(value) ? std::uint64_t{1} << (e + m) : 0;
  std::uint64_t infinity = ((std::uint64_t{1} << e) - 1) << m;
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // A whole number of the last place's units; it carries into the exponent field by itself.
  auto units = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, m - exponent)));
  std::uint64_t pattern = (static_cast<std::uint64_t>(exponent + bias - 1) << m) + units;
  return sign | std::min(pattern, infinity);
}

inline bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

// The element's bits after --cast `to`.
inline std::uint64_t cast_bits(DType from, DType to, std::uint64_t bits) {
  return from == to ? bits : float_pattern(to, float_value(from, bits));
}

}  // namespace slabload::testing
