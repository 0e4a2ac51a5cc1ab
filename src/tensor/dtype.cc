#include "tensor/dtype.h"

#include <array>

#include "base/error.h"

namespace slabload {
namespace {

struct Row {
  std::uint32_t size;
  std::string_view name;
  std::string_view safetensors;
  FloatFormat format;  // all zero for integers
};

constexpr std::array<Row, kDTypeCount> kRows{{
    {8, "f64", "F64", {11, 52, 1023}},
    {4, "f32", "F32", {8, 23, 127}},
    {2, "f16", "F16", {5, 10, 15}},
    {2, "bf16", "BF16", {8, 7, 127}},
    {1, "f8_e4m3", "F8_E4M3", {4, 3, 7}},
    {1, "f8_e5m2", "F8_E5M2", {5, 2, 15}},
    {8, "i64", "I64", {}},
    {4, "i32", "I32", {}},
    {2, "i16", "I16", {}},
    {1, "i8", "I8", {}},
    {8, "u64", "U64", {}},
    {4, "u32", "U32", {}},
    {2, "u16", "U16", {}},
    {1, "u8", "U8", {}},
    {1, "bool", "BOOL", {}},
}};

const Row& row(DType dtype) {
  return kRows.at(static_cast<std::size_t>(dtype));
}

}  // namespace

std::uint32_t dtype_size(DType dtype) {
  return row(dtype).size;
}
std::string_view dtype_name(DType dtype) {
  return row(dtype).name;
}
std::string_view safetensors_name(DType dtype) {
  return row(dtype).safetensors;
}

std::optional<DType> parse_dtype(std::string_view name) {
  if (name == "fp64") return DType::f64;
  if (name == "fp32") return DType::f32;
  if (name == "fp16") return DType::f16;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (name == kRows[i].name || name == kRows[i].safetensors) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_float(DType dtype) {
  return row(dtype).format.exponent_bits != 0;
}
FloatFormat float_format(DType dtype) {
  return row(dtype).format;
}

}  // namespace slabload
