// ballast keep BYTES: takes memory of the first GPU until only BYTES are free. ballast watch: takes none, and
// looks how little is free at times. Both say {"free_bytes":N} once they are ready, and stay until their
// standard input ends; watch says then
// {"least_free_bytes":N}. Other processes see what is left.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu/tools/tool.h"

namespace slabload::testing {
namespace {

std::uint64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  SLABLOAD_CUDA_CALL("the first GPU", cudaMemGetInfo, &free, &total);
  return free;
}

// Null if there are not so many bytes in one piece.
void* piece(std::uint64_t bytes) {
  void* data = nullptr;
  cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaSuccess) return data;
  (void)cudaGetLastError();
  if (code != cudaErrorMemoryAllocation) cuda::fail_call(code, "cudaMalloc", "the ballast");
  return nullptr;
}

// The granularity of the driver is not asked for: a piece that takes more than it was asked for is given
// back, and smaller ones follow.
std::vector<std::unique_ptr<DeviceMemory>> take_all_but(std::uint64_t keep) {
  auto usage = std::make_shared<cuda::Usage>();
  std::vector<std::unique_ptr<DeviceMemory>> taken;
  std::uint64_t size = std::uint64_t{1} << 34;
  while (size >= 64 << 10) {
    std::uint64_t free = free_bytes();
    if (free < keep + size) {
      size /= 2;
      continue;
    }
    void* data = piece(size);
    if (data == nullptr) {
      size /= 2;
      continue;
    }
    taken.push_back(std::make_unique<cuda::GpuMemory>(static_cast<std::byte*>(data), size, usage));
    if (free_bytes() < keep) {
      taken.pop_back();
      size /= 2;
    }
  }
  return taken;
}

// False once the standard input has ended.
bool is_wanted(int wait_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char text[256];
  return poll(&input, 1, wait_ms) <= 0 || read(STDIN_FILENO, text, sizeof text) > 0;
}

int keep(std::uint64_t bytes) {
  auto taken = take_all_but(bytes);
  print_line(fmt::format(R"({{"free_bytes":{}}})", free_bytes()));
  while (is_wanted(1000)) {
  }
  return 0;
}

int watch() {
  std::uint64_t least = free_bytes();
  print_line(fmt::format(R"({{"free_bytes":{}}})", least));
  while (is_wanted(1)) least = std::min(least, free_bytes());
  print_line(fmt::format(R"({{"least_free_bytes":{}}})", least));
  return 0;
}

}  // namespace
}  // namespace slabload::testing

int main(int argc, char** argv) {
  using namespace slabload::testing;  // NOLINT: this is its program
  return tool_main("ballast", [&] {
    std::string_view verb = argc > 1 ? argv[1] : "";
    bool keeps = verb == "keep" && argc == 3;
    if (!keeps && !(verb == "watch" && argc == 2))
      slabload::fail(slabload::Status::usage, "usage: ballast keep BYTES | ballast watch");
    SLABLOAD_CUDA_CALL("the first GPU", cudaSetDevice, 0);
    return keeps ? keep(number_argument(argv[2], "BYTES")) : watch();
  });
}
