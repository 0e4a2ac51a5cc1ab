// Attributes of the few forms we use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/hdf5/handle.h"

namespace slabload::hdf5 {

// Nothing if there is no such attribute or it is not one string (fixed or variable length).
std::optional<std::string> read_text(hid_t object, const char* name, const Where& where);
// Nothing if there is no such attribute; throws Status::file if it is not one unsigned integer.
std::optional<std::uint64_t> read_number(hid_t object, const char* name, const Where& where);
// All bytes of an attribute of type uint8, one-dimensional. Nothing if there is no such attribute.
std::optional<std::string> read_bytes(hid_t object, const char* name, const Where& where);

// Each creates the attribute.
void write_text(hid_t object, const char* name, const std::string& value, const Where& where);
void write_number(hid_t object, const char* name, std::uint64_t value, const Where& where);
void write_bytes(hid_t object, const char* name, const std::string& value, const Where& where);
// Changes the value of an attribute that write_number created.
void rewrite_number(hid_t object, const char* name, std::uint64_t value, const Where& where);

}  // namespace slabload::hdf5
