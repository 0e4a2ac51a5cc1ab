// Casts against real arithmetic: the compiler's own conversions, and a search for the nearest value among all
// of the target's.
#include "tensor/cast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace slabload {
namespace {

std::uint64_t cast_one(DType from, DType to, std::uint64_t bits) {
  std::uint64_t out = 0;
  cast_elements(from, to, &bits, 1, &out);  // both little-endian
  return out;
}

double as_double(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}

float as_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

std::uint32_t float_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// The value of a pattern, exactly; by ldexp from its fields.
double value_of(DType dtype, std::uint64_t bits) {
  if (dtype == DType::f64) return as_double(bits);
  if (dtype == DType::f32) return as_float(static_cast<std::uint32_t>(bits));
  struct {
    int exponent, mantissa;
  } fields = dtype == DType::bf16      ? decltype(fields){8, 7}
             : dtype == DType::f16     ? decltype(fields){5, 10}
             : dtype == DType::f8_e4m3 ? decltype(fields){4, 3}
                                       : decltype(fields){5, 2};
  int bias = (1 << (fields.exponent - 1)) - 1;
  auto mantissa = static_cast<int>(bits & ((1u << fields.mantissa) - 1));
  auto exponent = static_cast<int>((bits >> fields.mantissa) & ((1u << fields.exponent) - 1));
  double sign = (bits >> (fields.mantissa + fields.exponent)) & 1 ? -1 : 1;
  bool top = exponent == (1 << fields.exponent) - 1;
  if (dtype == DType::f8_e4m3) {
    if (top && mantissa == 7) return std::nan("");
  } else if (top) {
    return mantissa == 0 ? sign * INFINITY : std::nan("");
  }
  double fraction = std::ldexp(mantissa, -fields.mantissa);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

// Rounding by search among all non-negative finite values of a 16-bit type and the power of two after the
// largest, which stands for infinity; all comparisons are exact in double.
class NearestValue {
 public:
  explicit NearestValue(DType dtype) : infinity_(dtype == DType::bf16 ? 0x7f80 : 0x7c00) {
    for (std::uint32_t code = 0; code < infinity_; ++code) values_.push_back(value_of(dtype, code));
    values_.push_back(std::ldexp(1.0, dtype == DType::bf16 ? 128 : 16));
  }
  const std::vector<double>& values() const { return values_; }
  std::uint32_t infinity() const { return infinity_; }

  std::uint32_t code(double value) const {
    std::uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    double magnitude = std::fabs(value);
    if (magnitude >= values_.back()) return sign | infinity_;
    auto above = static_cast<std::uint32_t>(std::upper_bound(values_.begin(), values_.end(), magnitude) -
                                            values_.begin());
    std::uint32_t below = above - 1;
    // Differences of a double and its neighbours in a coarser grid are exact as long as neither is tiny;
    // scale up to make them so.
    double scaled = std::ldexp(magnitude, 200);
    double to_below = scaled - std::ldexp(values_[below], 200),
           to_above = std::ldexp(values_[above], 200) - scaled;
    if (to_below < to_above) return sign | below;
    if (to_above < to_below) return sign | above;
    return sign | (below % 2 == 0 ? below : above);
  }

 private:
  std::uint32_t infinity_;
  std::vector<double> values_;
};

const NearestValue& nearest(DType dtype) {
  static const NearestValue bf16(DType::bf16), f16(DType::f16);
  return dtype == DType::bf16 ? bf16 : f16;
}

// What a finite or infinite value must become.
std::uint64_t expected_bits(DType to, double value) {
  if (to == DType::f32) return float_bits(static_cast<float>(value));
  if (std::isinf(value)) return (value < 0 ? 0x8000u : 0u) | nearest(to).infinity();
  return nearest(to).code(value);
}

// Mantissa bits of each type, to follow the payload of a NaN.
int mantissa_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 52;
    case DType::f32:
      return 23;
    case DType::f16:
      return 10;
    case DType::bf16:
      return 7;
    case DType::f8_e4m3:
      return 3;
    default:
      return 2;
  }
}

// A NaN keeps sign and upper payload bits and is quiet.
std::uint64_t expected_nan(DType from, DType to, std::uint64_t bits) {
  int have = mantissa_bits(from), want = mantissa_bits(to);
  std::uint64_t payload = bits & ((std::uint64_t{1} << have) - 1);
  payload = want >= have ? payload << (want - have) : payload >> (have - want);
  payload |= std::uint64_t{1} << (want - 1);
  std::uint64_t sign = (bits >> (8 * dtype_size(from) - 1)) & 1;
  std::uint64_t infinity = to == DType::f32 ? 0x7f800000 : to == DType::f16 ? 0x7c00 : 0x7f80;
  return sign << (8 * dtype_size(to) - 1) | infinity | payload;
}

void check(DType from, DType to, std::uint64_t bits) {
  double value = value_of(from, bits);
  std::uint64_t expected = std::isnan(value) ? expected_nan(from, to, bits) : expected_bits(to, value);
  ASSERT_EQ(cast_one(from, to, bits), expected)
      << dtype_name(from) << " " << std::hex << bits << " to " << dtype_name(to);
}

TEST(Cast, EveryPatternOfTheSmallTypes) {
  for (DType from : {DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2}) {
    for (DType to : {DType::f32, DType::f16, DType::bf16}) {
      if (from == to) continue;
      std::uint64_t patterns = std::uint64_t{1} << (8 * dtype_size(from));
      for (std::uint64_t bits = 0; bits < patterns; ++bits) {
        check(from, to, bits);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Cast, KnownValues) {
  EXPECT_EQ(cast_one(DType::bf16, DType::f32, 0x3f80), 0x3f800000u);  // 1
  EXPECT_EQ(cast_one(DType::f32, DType::bf16, 0x3f808000), 0x3f80u);  // a tie: to the even 1
  EXPECT_EQ(cast_one(DType::f32, DType::bf16, 0x3f818000), 0x3f82u);  // a tie: to the even one above
  EXPECT_EQ(cast_one(DType::f32, DType::bf16, 0x7f7fffff), 0x7f80u);  // the largest float overflows
  EXPECT_EQ(cast_one(DType::f32, DType::f16, 0x477fefff), 0x7bffu);   // just below 65520: the largest half
  EXPECT_EQ(cast_one(DType::f32, DType::f16, 0x477ff000), 0x7c00u);   // 65520: infinity
  EXPECT_EQ(cast_one(DType::f32, DType::f16, 0x33000000), 0x0000u);   // 2^-25, a tie with 0
  EXPECT_EQ(cast_one(DType::f32, DType::f16, 0x33000001), 0x0001u);
  EXPECT_EQ(cast_one(DType::f32, DType::f16, 0x80000000), 0x8000u);    // -0
  EXPECT_EQ(cast_one(DType::f8_e4m3, DType::f32, 0x7e), 0x43e00000u);  // 448, the largest
  EXPECT_EQ(cast_one(DType::f8_e4m3, DType::f32, 0x78), 0x43800000u);  // 256: no infinity in e4m3
  EXPECT_EQ(cast_one(DType::f8_e4m3, DType::f32, 0x01), 0x3b000000u);  // 2^-9
  EXPECT_EQ(cast_one(DType::f8_e5m2, DType::f16, 0x7c), 0x7c00u);      // infinity
}

// Around each midpoint of the target's grid, where rounding goes wrong if it does.
TEST(Cast, SinglesAtEveryMidpoint) {
  for (DType to : {DType::f16, DType::bf16}) {
    const auto& values = nearest(to).values();
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      auto middle =
          static_cast<float>(std::ldexp(std::ldexp(values[i], 200) + std::ldexp(values[i + 1], 200), -201));
      std::uint32_t bits = float_bits(middle);
      for (std::uint32_t near : {bits - 1, bits, bits + 1}) {
        if (near > 0x7f800000) continue;  // below 0 wraps round
        check(DType::f32, to, near);
        check(DType::f32, to, near | 0x80000000);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Cast, RandomSingles) {
  std::mt19937_64 random(10);
  for (DType to : {DType::f16, DType::bf16}) {
    for (int i = 0; i < 300000; ++i) {
      check(DType::f32, to, random() & 0xffffffff);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Cast, RandomDoubles) {
  std::mt19937_64 random(11);
  std::vector<std::uint64_t> patterns;
  for (int i = 0; i < 100000; ++i) {
    patterns.push_back(random());
    // Most doubles lie far outside the small types: these lie within.
    double within =
        std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 320) - 53 - 160);
    std::uint64_t bits;
    std::memcpy(&bits, &within, 8);
    patterns.push_back(bits | (random() & 0x8000000000000000));
  }
  for (std::uint64_t bits :
       {0x0ull, 0x1ull, 0x000fffffffffffffull, 0x0010000000000000ull, 0x7fefffffffffffffull,
        0x7ff0000000000000ull, 0x7ff0000000000001ull, 0x7fffffffffffffffull, 0x47efffffe0000000ull,
        0x47efffffefffffffull, 0x47effffff0000000ull, 0x36a0000000000000ull, 0x3690000000000000ull,
        0x3690000000000001ull, 0x3ff0000010000000ull, 0x3ff0000010000001ull}) {
    patterns.push_back(bits);
    patterns.push_back(bits | 0x8000000000000000);
  }
  for (DType to : {DType::f32, DType::f16, DType::bf16}) {
    for (std::uint64_t bits : patterns) {
      check(DType::f64, to, bits);
      if (HasFatalFailure()) return;
    }
  }
}

#ifdef __FLT16_MAX__
TEST(Cast, HalvesAsTheCompilerHasThem) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 200000; ++i) {
    float value = as_float(static_cast<std::uint32_t>(random()));
    if (i % 2 == 0)
      value = std::ldexp(static_cast<float>(random() >> 40), static_cast<int>(random() % 40) - 50);
    if (std::isnan(value)) continue;
    auto half = static_cast<_Float16>(value);
    std::uint16_t bits;
    std::memcpy(&bits, &half, 2);
    ASSERT_EQ(cast_one(DType::f32, DType::f16, float_bits(value)), bits) << value;
  }
}
#endif

TEST(Cast, ManyAtOnceEqualOneByOne) {
  std::vector<std::uint16_t> in(1001);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i * 65);
  std::vector<std::uint32_t> out(in.size() + 1, 0xdeadbeef);
  cast_elements(DType::f16, DType::f32, in.data(), in.size(), out.data());
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], cast_one(DType::f16, DType::f32, in[i]));
  EXPECT_EQ(out.back(), 0xdeadbeef);
}

// Between bf16 and f32 there is a short way, which must give what the general way gives.
TEST(Cast, TheShortWaysAgreeWithTheGeneralWay) {
  CastRule widen = cast_rule(DType::bf16, DType::f32), round = cast_rule(DType::f32, DType::bf16);
  EXPECT_EQ(widen.way, CastRule::Way::bf16_to_f32);
  EXPECT_EQ(round.way, CastRule::Way::f32_to_bf16);
  std::mt19937_64 random(13);
  for (std::uint64_t upper = 0; upper < 65536; ++upper) {
    ASSERT_EQ(cast_bits(upper, widen), cast_general(upper, widen));
    for (std::uint64_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      ASSERT_EQ(cast_bits(upper << 16 | lower, round), cast_general(upper << 16 | lower, round));
    }
    std::uint64_t any = random() & 0xffffffff;
    ASSERT_EQ(cast_bits(any, round), cast_general(any, round));
  }
}

TEST(Cast, TheSameTypeKeepsEveryBit) {
  for (std::uint64_t bits : {0x7fa00001ull, 0xffffffffull, 0x80000000ull}) {
    EXPECT_EQ(cast_one(DType::f32, DType::f32, bits), bits);
  }
}

TEST(Cast, KnowsWhatMayBeCastAndWhatNarrows) {
  for (DType to : {DType::f32, DType::f16, DType::bf16}) {
    for (DType from : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2}) {
      EXPECT_TRUE(can_cast(from, to));
    }
    for (DType from : {DType::i64, DType::i8, DType::u32, DType::u8, DType::boolean})
      EXPECT_FALSE(can_cast(from, to));
  }
  for (DType to : {DType::f64, DType::f8_e4m3, DType::i32, DType::boolean})
    EXPECT_FALSE(can_cast(DType::f32, to));
  // Narrowing exactly if some value of `from` has no equal in `to`; for the small types by looking at all of
  // them.
  for (DType from : {DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2}) {
    for (DType to : {DType::f32, DType::f16, DType::bf16}) {
      bool loses = false;
      for (std::uint64_t bits = 0; bits < std::uint64_t{1} << (8 * dtype_size(from)); ++bits) {
        double value = value_of(from, bits);
        if (!std::isnan(value) && from != to) loses |= value_of(to, cast_one(from, to, bits)) != value;
      }
      EXPECT_EQ(is_narrowing(from, to), loses) << dtype_name(from) << " to " << dtype_name(to);
    }
  }
  EXPECT_TRUE(is_narrowing(DType::f64, DType::f32));
  EXPECT_TRUE(is_narrowing(DType::f32, DType::f16));
  EXPECT_TRUE(is_narrowing(DType::f32, DType::bf16));
}

TEST(SwapBytes, ReversesEachElement) {
  for (std::uint32_t size : {1u, 2u, 4u, 8u}) {
    std::vector<unsigned char> bytes(size * 5 + 1), expected;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 37 + 1);
    expected = bytes;
    for (std::size_t i = 0; i < 5; ++i) {
      std::reverse(expected.begin() + static_cast<std::ptrdiff_t>(i * size),
                   expected.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
    }
    swap_bytes(bytes.data(), 5, size);
    EXPECT_EQ(bytes, expected) << size;
  }
}

}  // namespace
}  // namespace slabload
