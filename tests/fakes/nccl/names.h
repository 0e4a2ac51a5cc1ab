// What NCCL calls things, and how messages tell of operations.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

#include "shared.h"

namespace fakenccl {

// Bytes of an element, 0 for what is no type.
std::uint64_t size_of(ncclDataType_t type);
// "ncclAllGather".
const char* name_of(Kind kind);
// "ncclBroadcast of 12 x ncclInt8, root 1".
std::string text_of(const Signature& signature);
// As the real library words it.
const char* text_of(ncclResult_t result);

// printf into a string.
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// What ncclGetLastError tells.
void set_last_error(const std::string& message);
const char* last_error();
// Sets the last error and returns `result`.
ncclResult_t failed(ncclResult_t result, const std::string& message);

}  // namespace fakenccl
