#include "backend/hdf5/dtype.h"

#include <array>
#include <memory>

namespace slabload::hdf5 {
namespace {

constexpr Where kNowhere{"(a datatype)"};

// The bit fields of a float type of ours: sign on top, then exponent, then mantissa from bit 0.
struct Fields {
  size_t sign, exponent, exponent_size, mantissa, mantissa_size, bias;
  bool operator==(const Fields&) const = default;
};

Fields fields_of(DType dtype) {
  FloatFormat format = float_format(dtype);
  auto mantissa = static_cast<size_t>(format.mantissa_bits);
  auto exponent = static_cast<size_t>(format.exponent_bits);
  return {mantissa + exponent, mantissa, exponent, 0, mantissa, static_cast<size_t>(format.bias)};
}

// Byte order of an atomic type; nothing if it is neither little- nor big-endian.
std::optional<bool> big_endian(hid_t type) {
  if (H5Tget_size(type) == 1) return false;
  switch (H5Tget_order(type)) {
    case H5T_ORDER_LE:
      return false;
    case H5T_ORDER_BE:
      return true;
    default:
      return std::nullopt;
  }
}

TypeMatch no(std::string reason) {
  return {std::nullopt, false, std::move(reason)};
}

TypeMatch match_float(hid_t type) {
  Fields fields{};
  if (H5Tget_fields(type, &fields.sign, &fields.exponent, &fields.exponent_size, &fields.mantissa,
                    &fields.mantissa_size) < 0) {
    return no("floating type without readable fields");
  }
  fields.bias = H5Tget_ebias(type);
  size_t bits = H5Tget_size(type) * 8;
  std::optional<bool> big = big_endian(type);
  if (big && H5Tget_offset(type) == 0 && H5Tget_precision(type) == bits &&
      H5Tget_norm(type) == H5T_NORM_IMPLIED) {
    for (int i = 0; i < kDTypeCount; ++i) {
      auto dtype = static_cast<DType>(i);
      if (is_float(dtype) && dtype_size(dtype) * 8 == bits && fields_of(dtype) == fields)
        return {dtype, *big, {}};
    }
  }
  return no(fmt::format("{}-bit floating type with {} exponent and {} mantissa bits, bias {}",
                        H5Tget_precision(type), fields.exponent_size, fields.mantissa_size, fields.bias));
}

TypeMatch match_integer(hid_t type, const std::string& dtype_attribute) {
  size_t size = H5Tget_size(type);
  size_t precision = H5Tget_precision(type);
  std::optional<bool> big = big_endian(type);
  if (!big || precision != size * 8 || H5Tget_offset(type) != 0)
    return no(fmt::format("{}-bit integer", precision));
  bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  if (!is_signed && H5Tget_sign(type) != H5T_SGN_NONE) return no("integer of unknown sign");
  if (!is_signed && size == 2 && dtype_attribute == "bfloat16") return {DType::bf16, *big, {}};
  switch (size) {
    case 1:
      return {is_signed ? DType::i8 : DType::u8, *big, {}};
    case 2:
      return {is_signed ? DType::i16 : DType::u16, *big, {}};
    case 4:
      return {is_signed ? DType::i32 : DType::u32, *big, {}};
    case 8:
      return {is_signed ? DType::i64 : DType::u64, *big, {}};
    default:
      return no(fmt::format("{}-bit integer", precision));
  }
}

std::string member_name(hid_t type, unsigned member) {
  std::unique_ptr<char, herr_t (*)(void*)> name(H5Tget_member_name(type, member), H5free_memory);
  return name ? std::string(name.get()) : std::string();
}

TypeMatch match_enum(hid_t type) {
  TypeHandle base(H5Tget_super(type));
  if (base && H5Tget_size(type) == 1 && H5Tget_class(base.get()) == H5T_INTEGER &&
      H5Tget_nmembers(type) == 2) {
    std::array<int, 2> values{-1, -1};  // of FALSE and TRUE
    for (unsigned i = 0; i < 2; ++i) {
      std::string name = member_name(type, i);
      unsigned char value = 255;
      if (H5Tget_member_value(type, i, &value) < 0) continue;
      if (name == "FALSE") values[0] = value;
      if (name == "TRUE") values[1] = value;
    }
    if (values[0] == 0 && values[1] == 1) return {DType::boolean, false, {}};
  }
  return no("enumeration other than bool");
}

}  // namespace

bool wants_dtype_attribute(hid_t type) {
  H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_OPAQUE) return true;
  return kind == H5T_INTEGER && H5Tget_size(type) == 2 && H5Tget_sign(type) == H5T_SGN_NONE;
}

TypeMatch match_dtype(hid_t type, const std::string& dtype_attribute) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return match_float(type);
    case H5T_INTEGER:
      return match_integer(type, dtype_attribute);
    case H5T_ENUM:
      return match_enum(type);
    case H5T_OPAQUE:
      if (dtype_attribute.empty()) return no("opaque without a dtype attribute");
      if (dtype_attribute == "bfloat16" && H5Tget_size(type) == 2) return {DType::bf16, false, {}};
      return no(fmt::format("opaque of {} bytes with dtype attribute '{}'", H5Tget_size(type),
                            printable(dtype_attribute)));
    case H5T_STRING:
      return no(H5Tis_variable_str(type) > 0 ? "variable-length string" : "fixed-length string");
    case H5T_COMPOUND:
      return no("compound");
    case H5T_REFERENCE:
      return no("reference");
    case H5T_VLEN:
      return no("variable-length sequence");
    case H5T_ARRAY:
      return no("array datatype");
    case H5T_BITFIELD:
      return no("bit field");
    case H5T_TIME:
      return no("time");
    case H5T_NO_CLASS:
      return no("unreadable datatype");
    default:
      return no(fmt::format("datatype class {}", static_cast<int>(H5Tget_class(type))));
  }
}

namespace {

TypeHandle create_float(DType dtype) {
  TypeHandle type(SLABLOAD_HDF5(kNowhere, H5Tcopy, H5T_IEEE_F32LE));
  Fields f = fields_of(dtype);
  size_t size = dtype_size(dtype);
  // Narrowing works in this order only: each call checks the fields against the size as it is then.
  SLABLOAD_HDF5(kNowhere, H5Tset_fields, type.get(), f.sign, f.exponent, f.exponent_size, f.mantissa,
                f.mantissa_size);
  SLABLOAD_HDF5(kNowhere, H5Tset_precision, type.get(), size * 8);
  SLABLOAD_HDF5(kNowhere, H5Tset_size, type.get(), size);
  SLABLOAD_HDF5(kNowhere, H5Tset_ebias, type.get(), f.bias);
  return type;
}

TypeHandle create_bool() {
  TypeHandle type(SLABLOAD_HDF5(kNowhere, H5Tenum_create, H5T_STD_I8LE));
  const signed char zero = 0;
  const signed char one = 1;
  SLABLOAD_HDF5(kNowhere, H5Tenum_insert, type.get(), "FALSE", &zero);
  SLABLOAD_HDF5(kNowhere, H5Tenum_insert, type.get(), "TRUE", &one);
  return type;
}

hid_t predefined(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return H5T_IEEE_F64LE;
    case DType::f32:
      return H5T_IEEE_F32LE;
    case DType::i64:
      return H5T_STD_I64LE;
    case DType::i32:
      return H5T_STD_I32LE;
    case DType::i16:
      return H5T_STD_I16LE;
    case DType::i8:
      return H5T_STD_I8LE;
    case DType::u64:
      return H5T_STD_U64LE;
    case DType::u32:
      return H5T_STD_U32LE;
    case DType::u16:
      return H5T_STD_U16LE;
    case DType::u8:
      return H5T_STD_U8LE;
    default:
      fail(Status::internal, "no predefined HDF5 datatype for {}", dtype_name(dtype));
  }
}

}  // namespace

TypeHandle create_dtype(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return create_float(dtype);
    case DType::boolean:
      return create_bool();
    default:
      return TypeHandle(SLABLOAD_HDF5(kNowhere, H5Tcopy, predefined(dtype)));
  }
}

}  // namespace slabload::hdf5
