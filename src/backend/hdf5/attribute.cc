#include "backend/hdf5/attribute.h"

#include <memory>
#include <vector>

#include "base/narrow.h"

namespace slabload::hdf5 {
namespace {

// Attributes are copied to memory whole; a larger claim than this is not one of the forms we read.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

AttributeHandle open_attribute(hid_t object, const char* name, const Where& where) {
  if (SLABLOAD_HDF5(where, H5Aexists, object, name) == 0) return {};
  return AttributeHandle(SLABLOAD_HDF5(where, H5Aopen, object, name, H5P_DEFAULT));
}

hssize_t points_of(hid_t attribute, const Where& where) {
  SpaceHandle space(SLABLOAD_HDF5(where, H5Aget_space, attribute));
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return 0;
  return SLABLOAD_HDF5(where, H5Sget_simple_extent_npoints, space.get());
}

std::string variable_text(hid_t attribute, hid_t type, const Where& where) {
  char* text = nullptr;
  SLABLOAD_HDF5(where, H5Aread, attribute, type, &text);
  std::unique_ptr<char, herr_t (*)(void*)> owner(text, H5free_memory);
  return text == nullptr ? std::string() : std::string(text);
}

std::string fixed_text(hid_t attribute, hid_t type, const Where& where) {
  std::string text(H5Tget_size(type), '\0');
  SLABLOAD_HDF5(where, H5Aread, attribute, type, text.data());
  char pad = H5Tget_strpad(type) == H5T_STR_SPACEPAD ? ' ' : '\0';
  if (pad == '\0') {
    if (auto end = text.find('\0'); end != std::string::npos) text.resize(end);
  } else {
    text.resize(text.find_last_not_of(pad) + 1);
  }
  return text;
}

void create_and_write(hid_t object, const char* name, hid_t type, hid_t space, const void* value,
                      const Where& where) {
  AttributeHandle attribute(
      SLABLOAD_HDF5(where, H5Acreate2, object, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
  SLABLOAD_HDF5(where, H5Awrite, attribute.get(), type, value);
}

}  // namespace

std::optional<std::string> read_text(hid_t object, const char* name, const Where& where) {
  AttributeHandle attribute = open_attribute(object, name, where);
  if (!attribute) return std::nullopt;
  TypeHandle type(SLABLOAD_HDF5(where, H5Aget_type, attribute.get()));
  if (H5Tget_class(type.get()) != H5T_STRING || points_of(attribute.get(), where) != 1) return std::nullopt;
  if (H5Tis_variable_str(type.get()) > 0) return variable_text(attribute.get(), type.get(), where);
  if (H5Tget_size(type.get()) > kMostBytes) return std::nullopt;
  return fixed_text(attribute.get(), type.get(), where);
}

std::optional<std::uint64_t> read_number(hid_t object, const char* name, const Where& where) {
  AttributeHandle attribute = open_attribute(object, name, where);
  if (!attribute) return std::nullopt;
  TypeHandle type(SLABLOAD_HDF5(where, H5Aget_type, attribute.get()));
  if (H5Tget_class(type.get()) != H5T_INTEGER || H5Tget_sign(type.get()) != H5T_SGN_NONE ||
      H5Tget_size(type.get()) > 8 || points_of(attribute.get(), where) != 1) {
    fail(Status::file, "{}: attribute '{}' is not one unsigned integer", text(where), name);
  }
  std::uint64_t value = 0;
  SLABLOAD_HDF5(where, H5Aread, attribute.get(), H5T_NATIVE_UINT64, &value);
  return value;
}

std::optional<std::string> read_bytes(hid_t object, const char* name, const Where& where) {
  AttributeHandle attribute = open_attribute(object, name, where);
  if (!attribute) return std::nullopt;
  TypeHandle type(SLABLOAD_HDF5(where, H5Aget_type, attribute.get()));
  auto points = static_cast<std::uint64_t>(points_of(attribute.get(), where));
  if (H5Tget_class(type.get()) != H5T_INTEGER || H5Tget_size(type.get()) != 1 || points > kMostBytes) {
    fail(Status::file, "{}: attribute '{}' is not a list of bytes", text(where), name);
  }
  std::string value(points, '\0');
  if (points != 0) SLABLOAD_HDF5(where, H5Aread, attribute.get(), type.get(), value.data());
  return value;
}

void write_text(hid_t object, const char* name, const std::string& value, const Where& where) {
  TypeHandle type(SLABLOAD_HDF5(where, H5Tcopy, H5T_C_S1));
  SLABLOAD_HDF5(where, H5Tset_size, type.get(), value.size() + 1);
  SLABLOAD_HDF5(where, H5Tset_cset, type.get(), H5T_CSET_UTF8);
  SpaceHandle space(SLABLOAD_HDF5(where, H5Screate, H5S_SCALAR));
  create_and_write(object, name, type.get(), space.get(), value.c_str(), where);
}

void write_number(hid_t object, const char* name, std::uint64_t value, const Where& where) {
  SpaceHandle space(SLABLOAD_HDF5(where, H5Screate, H5S_SCALAR));
  AttributeHandle attribute(
      SLABLOAD_HDF5(where, H5Acreate2, object, name, H5T_STD_U64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  SLABLOAD_HDF5(where, H5Awrite, attribute.get(), H5T_NATIVE_UINT64, &value);
}

void write_bytes(hid_t object, const char* name, const std::string& value, const Where& where) {
  hsize_t length = value.size();
  SpaceHandle space(length == 0 ? SLABLOAD_HDF5(where, H5Screate, H5S_NULL)
                                : SLABLOAD_HDF5(where, H5Screate_simple, 1, &length, nullptr));
  create_and_write(object, name, H5T_STD_U8LE, space.get(), value.data(), where);
}

void rewrite_number(hid_t object, const char* name, std::uint64_t value, const Where& where) {
  AttributeHandle attribute(SLABLOAD_HDF5(where, H5Aopen, object, name, H5P_DEFAULT));
  SLABLOAD_HDF5(where, H5Awrite, attribute.get(), H5T_NATIVE_UINT64, &value);
}

}  // namespace slabload::hdf5
