// Element types: those of safetensors, which are also those our HDF5 files hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace slabload {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};
inline constexpr int kDTypeCount = 15;

// Bytes of one element: 1, 2, 4 or 8.
std::uint32_t dtype_size(DType dtype);

// Our short name ("bf16", "f8_e4m3", "i64", "bool"), as in tables and reports.
std::string_view dtype_name(DType dtype);

// The name in a safetensors header ("BF16", "F8_E4M3", "I64", "BOOL").
std::string_view safetensors_name(DType dtype);

// Either spelling, exactly; also fp64/fp32/fp16 for f64/f32/f16. Nothing if it is none of them.
std::optional<DType> parse_dtype(std::string_view name);

bool is_float(DType dtype);

// Bits of exponent and mantissa of a floating type (IEEE layout; f8_e4m3 is the "fn" variant: no infinity,
// one NaN pattern per sign).
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
};
FloatFormat float_format(DType dtype);

}  // namespace slabload
