// kernels rates BYTES: the rates of the load's kernels and copies within the GPU, on BYTES of data, and what
// share they are of a plain copy's. kernels casts STEP: every STEP-th pattern of f32, cast to bf16 and f16 by
// the GPU and by the host, which are to agree; exit status 1 if they don't. Lines of JSON.
#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cuda/device.h"
#include "base/stopwatch.h"
#include "gpu/tools/tool.h"
#include "tensor/cast.h"

namespace slabload::testing {
namespace {

using Buffer = std::unique_ptr<DeviceMemory>;

double wait(Device& device, Mark mark) {
  for (;;) {
    if (std::optional<double> at = device.passed(mark)) return *at;
  }
}

// Runs body(first, last) for parts of 0 .. count on all cores.
void in_parallel(std::uint64_t count, const std::function<void(std::uint64_t, std::uint64_t)>& body) {
  std::uint64_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::uint64_t w = 0; w < workers; ++w)
    threads.emplace_back([&, w] { body(count * w / workers, count * (w + 1) / workers); });
  for (std::thread& thread : threads) thread.join();
}

// Bits without a pattern, the same for the same place.
std::uint64_t noise(std::uint64_t at) {
  std::uint64_t x = (at + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 27);
}

// ---- rates

class Rates {
 public:
  explicit Rates(std::uint64_t bytes)
      : bytes_(bytes),
        from_(device_.allocate(bytes, "the source")),
        to_(device_.allocate(bytes, "the target")) {
    device_.warm_up();
    fill(*from_);
    fill(*to_);
  }

  void measure() {
    std::byte* from = from_->data();
    std::byte* to = to_->data();
    report("copy", 2 * bytes_, [&] {
      Box all{{0}, {bytes_}};
      device_.copy_box(1, all, from, all, to, all);
    });
    // Half of the columns of rows of 16 KiB: two dimensions are the library's, three are our kernel's.
    std::uint64_t rows = bytes_ / 16384;
    Box columns{{0, 4096}, {rows, 4096}};
    report("copy of columns", 2 * bytes_ / 2, [&] {
      device_.copy_box(2, columns, from, Box{{0, 0}, {rows, 8192}}, to, columns);
    });
    Box middle{{0, 0, 1024}, {rows / 16, 8, 4096}};
    report("relayout", 2 * rows / 16 * 8 * 8192, [&] {
      device_.copy_box(2, middle, from, Box{{0, 0, 0}, {rows / 16, 16, 8192}}, to, middle);
    });
    for (auto [in, out] : {std::pair{DType::f32, DType::bf16},
                           {DType::f32, DType::f16},
                           {DType::bf16, DType::f32},
                           {DType::f16, DType::f32},
                           {DType::f8_e4m3, DType::bf16}}) {
      std::uint64_t count = bytes_ / std::max(dtype_size(in), dtype_size(out));
      report(fmt::format("cast {} to {}", dtype_name(in), dtype_name(out)),
             count * (dtype_size(in) + dtype_size(out)), [&] { device_.cast(in, out, from, count, to); });
    }
    std::uint64_t elements = bytes_ / 2;
    report("crc of a vector", bytes_, [&] {
      device_.checksum_box(Shape{elements}, Box{{0}, {elements}}, 2, from, to);
    });
    report("crc of rows", bytes_, [&] {
      device_.checksum_box(Shape{4 * rows, 8192}, Box{{rows, 0}, {rows, 8192}}, 2, from, to);
    });
    report("crc of columns", bytes_, [&] {
      device_.checksum_box(Shape{rows, 32768}, Box{{0, 8192}, {rows, 8192}}, 2, from, to);
    });
    report("crc of an odd start", bytes_ - 2, [&] {
      device_.checksum_box(Shape{elements}, Box{{1}, {elements - 1}}, 2, from + 2, to);
    });
  }

 private:
  void fill(const DeviceMemory& memory) {
    std::uint64_t piece = std::min<std::uint64_t>(bytes_, 32 << 20);
    Buffer host = device_.allocate_staging(piece, "random bytes");
    for (std::uint64_t i = 0; i + 8 <= piece; i += 8) {
      std::uint64_t bits = noise(i);
      std::memcpy(host->data() + i, &bits, 8);
    }
    for (std::uint64_t at = 0; at < bytes_; at += piece)
      device_.copy_in(host->data(), memory.data() + at, std::min(piece, bytes_ - at));
    wait(device_, device_.mark());
  }

  // `moved`: bytes read and written by one run.
  void report(const std::string& what, std::uint64_t moved, const std::function<void()>& run) {
    constexpr int kRuns = 10;
    run();
    Mark begin = device_.mark();
    for (int i = 0; i < kRuns; ++i) run();
    Mark end = device_.mark();
    double end_s = wait(device_, end);
    double rate = static_cast<double>(moved) * kRuns / std::max(end_s - wait(device_, begin), 1e-9) / 1e9;
    if (copy_rate_ == 0) copy_rate_ = rate;
    print_line(fmt::format(R"({{"what":"{}","moved_bytes":{},"gb_per_s":{:.4g},"of_copy":{:.3g}}})", what,
                           moved, rate, rate / copy_rate_));
  }

  cuda::CudaDevice device_{0};
  std::uint64_t bytes_;
  Buffer from_, to_;
  double copy_rate_ = 0;
};

// ---- casts

int compare_casts(std::uint64_t step) {
  if (step == 0) fail(Status::usage, "STEP is 0");
  constexpr std::uint64_t kAll = std::uint64_t{1} << 32, kPiece = std::uint64_t{1} << 24;
  const std::uint64_t patterns = (kAll + step - 1) / step;
  const std::uint64_t piece = std::min(patterns, kPiece);
  cuda::CudaDevice device(0);
  device.warm_up();
  Buffer in = device.allocate(piece * 4, "patterns"), out = device.allocate(piece * 2, "casts");
  Buffer host_in = device.allocate_staging(piece * 4, "patterns");
  Buffer got = device.allocate_staging(piece * 2, "casts");
  std::vector<std::byte> want(piece * 2);
  int status = 0;
  for (DType to : {DType::bf16, DType::f16}) {
    Stopwatch watch;
    std::uint64_t different = 0;
    for (std::uint64_t first = 0; first < patterns; first += piece) {
      const std::uint64_t count = std::min(piece, patterns - first);
      in_parallel(count, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i) {
          auto bits = static_cast<std::uint32_t>((first + i) * step);
          std::memcpy(host_in->data() + i * 4, &bits, 4);
        }
      });
      device.copy_in(host_in->data(), in->data(), count * 4);
      device.cast(DType::f32, to, in->data(), count, out->data());
      device.copy_out(out->data(), got->data(), count * 2);
      Mark done = device.mark();
      in_parallel(count, [&](std::uint64_t begin, std::uint64_t end) {
        cast_elements(DType::f32, to, host_in->data() + begin * 4, end - begin, want.data() + begin * 2);
      });
      wait(device, done);
      if (std::memcmp(got->data(), want.data(), count * 2) == 0) continue;
      for (std::uint64_t i = 0; i < count; ++i)
        different += std::memcmp(got->data() + i * 2, want.data() + i * 2, 2) != 0;
    }
    print_line(fmt::format(R"({{"cast":"f32 to {}","patterns":{},"different":{},"seconds":{:.2f}}})",
                           dtype_name(to), patterns, different, watch.seconds()));
    if (different != 0) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace slabload::testing

int main(int argc, char** argv) {
  using namespace slabload::testing;  // NOLINT: this is its program
  return tool_main("kernels", [&] {
    std::string_view verb = argc == 3 ? argv[1] : "";
    if (verb == "casts") return compare_casts(number_argument(argv[2], "STEP"));
    if (verb != "rates")
      slabload::fail(slabload::Status::usage, "usage: kernels rates BYTES | kernels casts STEP");
    std::uint64_t bytes = number_argument(argv[2], "BYTES");
    if (bytes == 0 || bytes % (256 << 10) != 0)
      slabload::fail(slabload::Status::usage, "BYTES: {} is not a multiple of 256 KiB", bytes);
    Rates(bytes).measure();
    return 0;
  });
}
