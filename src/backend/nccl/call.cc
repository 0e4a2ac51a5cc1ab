#include "backend/nccl/call.h"

#include "base/error.h"

namespace slabload::nccl {
namespace {

// NCCL's own words on its last error, on one line; it may have none.
std::string cause() {
  const char* text = ncclGetLastError(nullptr);
  std::string line = text == nullptr ? "" : text;
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  return line.empty() ? line : ": " + printable(line);
}

}  // namespace

void check(ncclResult_t code, const char* call) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  std::string why = cause();
  // That memory was lacking stands in the words alone: CUDA's, or NCCL's own of its allocator.
  bool memory = code == ncclUnhandledCudaError && (why.find("out of memory") != std::string::npos ||
                                                   why.find("Failed to CUDA") != std::string::npos);
  fail(memory ? Status::usage : Status::peer, "{}: {}{}{}", call, ncclGetErrorString(code), why,
       memory ? " (NCCL needs device memory of its own beside the shards)" : "");
}

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

std::string library_version() {
  int code = 0;
  SLABLOAD_NCCL(ncclGetVersion, &code);
  return version_text(code);
}

}  // namespace slabload::nccl
