// Element types: sizes and names as the safetensors format defines them.
#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace slabload {
namespace {

struct Expected {
  DType dtype;
  std::uint32_t size;
  const char* name;
  const char* safetensors;
  bool floating;
};

constexpr Expected kExpected[] = {{DType::f64, 8, "f64", "F64", true},
                                  {DType::f32, 4, "f32", "F32", true},
                                  {DType::f16, 2, "f16", "F16", true},
                                  {DType::bf16, 2, "bf16", "BF16", true},
                                  {DType::f8_e4m3, 1, "f8_e4m3", "F8_E4M3", true},
                                  {DType::f8_e5m2, 1, "f8_e5m2", "F8_E5M2", true},
                                  {DType::i64, 8, "i64", "I64", false},
                                  {DType::i32, 4, "i32", "I32", false},
                                  {DType::i16, 2, "i16", "I16", false},
                                  {DType::i8, 1, "i8", "I8", false},
                                  {DType::u64, 8, "u64", "U64", false},
                                  {DType::u32, 4, "u32", "U32", false},
                                  {DType::u16, 2, "u16", "U16", false},
                                  {DType::u8, 1, "u8", "U8", false},
                                  {DType::boolean, 1, "bool", "BOOL", false}};

TEST(DType, HasSizesAndNames) {
  static_assert(std::size(kExpected) == kDTypeCount);
  for (const Expected& e : kExpected) {
    EXPECT_EQ(dtype_size(e.dtype), e.size) << e.name;
    EXPECT_EQ(dtype_name(e.dtype), e.name);
    EXPECT_EQ(safetensors_name(e.dtype), e.safetensors);
    EXPECT_EQ(is_float(e.dtype), e.floating) << e.name;
    EXPECT_EQ(parse_dtype(e.name), e.dtype);
    EXPECT_EQ(parse_dtype(e.safetensors), e.dtype);
  }
}

TEST(DType, ParsesOtherSpellingsAndNothingElse) {
  EXPECT_EQ(parse_dtype("fp64"), DType::f64);
  EXPECT_EQ(parse_dtype("fp32"), DType::f32);
  EXPECT_EQ(parse_dtype("fp16"), DType::f16);
  for (const char* name : {"", "Bf16", "float32", "f8", "F8_E8M0", " bf16", "bf16 "}) {
    EXPECT_FALSE(parse_dtype(name).has_value()) << name;
  }
}

TEST(DType, DescribesFloats) {
  for (const Expected& e : kExpected) {
    if (!e.floating) continue;
    FloatFormat format = float_format(e.dtype);
    EXPECT_EQ(1 + format.exponent_bits + format.mantissa_bits, static_cast<int>(8 * e.size)) << e.name;
    EXPECT_EQ(format.bias, (1 << (format.exponent_bits - 1)) - 1) << e.name;
  }
  EXPECT_EQ(float_format(DType::bf16).mantissa_bits, 7);
  EXPECT_EQ(float_format(DType::f16).mantissa_bits, 10);
  EXPECT_EQ(float_format(DType::f8_e4m3).mantissa_bits, 3);
  EXPECT_EQ(float_format(DType::f8_e5m2).mantissa_bits, 2);
}

}  // namespace
}  // namespace slabload
