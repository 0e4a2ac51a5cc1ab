#include "names.h"

#include <cstdarg>
#include <cstdio>

namespace fakenccl {
namespace {

struct Type {
  const char* name;
  std::uint64_t size;
};
constexpr Type types[ncclNumTypes] = {{"ncclInt8", 1},     {"ncclUint8", 1},      {"ncclInt32", 4},
                                      {"ncclUint32", 4},   {"ncclInt64", 8},      {"ncclUint64", 8},
                                      {"ncclFloat16", 2},  {"ncclFloat32", 4},    {"ncclFloat64", 8},
                                      {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};

bool is_type(ncclDataType_t type) {
  return type >= 0 && type < ncclNumTypes;
}

std::string& error() {
  static std::string* const message = new std::string;
  return *message;
}

}  // namespace

std::uint64_t size_of(ncclDataType_t type) {
  return is_type(type) ? types[type].size : 0;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_gather:
      return "ncclAllGather";
    case Kind::broadcast:
      return "ncclBroadcast";
    case Kind::send:
      return "ncclSend";
    case Kind::receive:
      return "ncclRecv";
  }
  return "?";
}

std::string text_of(const Signature& signature) {
  std::string all =
      text("%s of %llu x %s", name_of(signature.kind), static_cast<unsigned long long>(signature.count),
           is_type(signature.type) ? types[signature.type].name : "?");
  if (signature.kind == Kind::broadcast) all += text(", root %d", signature.root);
  return all;
}

const char* text_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

std::string text(const char* format, ...) {
  char line[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

void set_last_error(const std::string& message) {
  error() = message;
}
const char* last_error() {
  return error().c_str();
}

ncclResult_t failed(ncclResult_t result, const std::string& message) {
  set_last_error(message);
  return result;
}

}  // namespace fakenccl
