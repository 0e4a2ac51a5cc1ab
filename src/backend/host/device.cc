#include "backend/host/device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload::host {
namespace {

constexpr std::uint64_t kHugePage = 2 << 20;

class MappedMemory final : public DeviceMemory {
 public:
  MappedMemory(std::uint64_t bytes, const char* purpose) : size_(bytes) {
    if (bytes == 0) return;
    // Room to align: a huge page can only back an aligned 2 MiB.
    if (!checked_add(bytes, kHugePage, &mapped_))
      fail(Status::usage, "{}: no memory of {} bytes", purpose, bytes);
    base_ =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) {
      base_ = nullptr;
      fail(Status::usage, "{}: no memory of {} to be had: {}", purpose, format_bytes(bytes),
           errno_text(errno));
    }
    auto address = reinterpret_cast<std::uintptr_t>(base_);
    data_ = reinterpret_cast<std::byte*>(align_up(address, kHugePage));
    if (bytes >= kHugePage)
      madvise(data_, bytes, MADV_HUGEPAGE);  // advice: where it fails, small pages serve
  }
  ~MappedMemory() override {
    if (base_ != nullptr) munmap(base_, mapped_);
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* data() const override { return data_; }
  std::uint64_t size() const override { return size_; }

 private:
  void* base_ = nullptr;
  std::uint64_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::uint64_t size_;
};

}  // namespace

std::unique_ptr<DeviceMemory> HostDevice::allocate(std::uint64_t bytes, const char* purpose) {
  return std::make_unique<MappedMemory>(bytes, purpose);
}

void HostDevice::prepare(std::byte* data, std::uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  // Whole small pages that lie within: the edges are left to whoever writes them.
  constexpr std::uint64_t kPage = 4096;
  auto begin = align_up(reinterpret_cast<std::uintptr_t>(data), kPage);
  auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / kPage * kPage;
  // A kernel before 5.14 refuses; the pages then come with the first write.
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#else
  (void)data;
  (void)bytes;
#endif
}

void HostDevice::copy_box(std::uint32_t element_size, const Box& box, const std::byte* from,
                          const Box& from_box, std::byte* to, const Box& to_box) {
  std::size_t ndim = box.ndim();
  if (ndim == 0) {
    std::memcpy(to, from, element_size);
    return;
  }
  if (box.empty()) return;
  // The run: trailing dimensions that all three take whole, and one more.
  std::size_t d = ndim;
  std::uint64_t run = element_size;
  while (d > 0) {
    --d;
    run *= box.extent[d];
    if (box.extent[d] != from_box.extent[d] || box.extent[d] != to_box.extent[d]) break;
  }
  Dims from_stride(ndim, element_size);
  Dims to_stride(ndim, element_size);
  for (std::size_t i = ndim - 1; i-- > 0;) {
    from_stride[i] = from_stride[i + 1] * from_box.extent[i + 1];
    to_stride[i] = to_stride[i + 1] * to_box.extent[i + 1];
  }
  for (std::size_t i = 0; i < ndim; ++i) {
    from += (box.start[i] - from_box.start[i]) * from_stride[i];
    to += (box.start[i] - to_box.start[i]) * to_stride[i];
  }
  Dims at(ndim, 0);
  for (;;) {
    std::memcpy(to, from, run);
    std::size_t i = d;
    for (;;) {
      if (i == 0) return;
      --i;
      from += from_stride[i];
      to += to_stride[i];
      if (++at[i] < box.extent[i]) break;
      from -= from_stride[i] * box.extent[i];
      to -= to_stride[i] * box.extent[i];
      at[i] = 0;
    }
  }
}

std::uint64_t peak_resident_bytes() {
  std::FILE* status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmHWM: %llu kB", &kib) == 1) break;
  }
  std::fclose(status);
  return kib * kKiB;
}

void reset_peak_resident() {
  int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  // Where the kernel refuses, the peak stays that of the whole process: too high, never too low.
  if (write(fd, "5", 1) != 1) errno = 0;
  close(fd);
}

}  // namespace slabload::host
