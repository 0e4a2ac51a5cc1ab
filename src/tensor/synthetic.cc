#include "tensor/synthetic.h"

#include <bit>
#include <cstring>

namespace slabload {
namespace {

static_assert(std::endian::native == std::endian::little,
              "slabload writes little-endian files from memory as it is");

inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Clears the top exponent bit of every lane that is a NaN: exponent and mantissa above the infinity's pattern
// (for f8_e4m3, which has no infinity: all ones).
template <typename Lane>
inline Lane without_nan(Lane bits, Lane magnitude_mask, Lane largest_number, Lane top_exponent_bit) {
  return (bits & magnitude_mask) > largest_number ? static_cast<Lane>(bits & ~top_exponent_bit) : bits;
}

template <typename Lane, bool kBool, bool kFloat>
void fill_lanes(std::uint64_t key, std::uint64_t begin, std::uint64_t count, Lane mask, Lane largest,
                Lane top, Lane* out) {
  constexpr std::uint64_t kLanes = 8 / sizeof(Lane);
  auto finish = [&](Lane bits) -> Lane {
    if constexpr (kBool) return bits & 1;
    if constexpr (kFloat) return without_nan(bits, mask, largest, top);
    return bits;
  };
  std::uint64_t i = begin;
  std::uint64_t end = begin + count;
  auto lane_of = [&](std::uint64_t index) {
    return static_cast<Lane>(mix(key + index / kLanes) >> (8 * sizeof(Lane) * (index % kLanes)));
  };
  for (; i < end && i % kLanes != 0; ++i) *out++ = finish(lane_of(i));
  for (; i + kLanes <= end; i += kLanes) {
    std::uint64_t word = mix(key + i / kLanes);
    Lane lanes[kLanes];
    std::memcpy(lanes, &word, 8);
    for (Lane& lane : lanes) lane = finish(lane);
    std::memcpy(out, lanes, 8);
    out += kLanes;
  }
  for (; i < end; ++i) *out++ = finish(lane_of(i));
}

template <typename Lane>
void fill_type(std::uint64_t key, DType dtype, std::uint64_t begin, std::uint64_t count, void* out) {
  Lane* lanes = static_cast<Lane*>(out);
  if (dtype == DType::boolean) {
    fill_lanes<Lane, true, false>(key, begin, count, 0, 0, 0, lanes);
  } else if (is_float(dtype)) {
    FloatFormat format = float_format(dtype);
    auto one = std::uint64_t{1};
    auto infinity = ((one << format.exponent_bits) - 1) << format.mantissa_bits;
    auto mask = static_cast<Lane>((one << (format.exponent_bits + format.mantissa_bits)) - 1);
    auto largest = static_cast<Lane>(dtype == DType::f8_e4m3 ? mask - 1 : infinity);
    auto top = static_cast<Lane>(one << (format.exponent_bits + format.mantissa_bits - 1));
    fill_lanes<Lane, false, true>(key, begin, count, mask, largest, top, lanes);
  } else {
    fill_lanes<Lane, false, false>(key, begin, count, 0, 0, 0, lanes);
  }
}

}  // namespace

SyntheticTensor::SyntheticTensor(std::uint64_t seed, std::string_view name, DType dtype) : dtype_(dtype) {
  key_ = 14695981039346656037ULL ^ mix(seed);
  for (char c : name) {
    key_ ^= static_cast<unsigned char>(c);
    key_ *= 1099511628211ULL;
  }
}

void SyntheticTensor::fill(std::uint64_t begin, std::uint64_t count, void* out) const {
  switch (dtype_size(dtype_)) {
    case 1:
      return fill_type<std::uint8_t>(key_, dtype_, begin, count, out);
    case 2:
      return fill_type<std::uint16_t>(key_, dtype_, begin, count, out);
    case 4:
      return fill_type<std::uint32_t>(key_, dtype_, begin, count, out);
    default:
      return fill_type<std::uint64_t>(key_, dtype_, begin, count, out);
  }
}

}  // namespace slabload
