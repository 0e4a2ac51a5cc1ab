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
#include "base/stopwatch.h"
#include "tensor/box_checksum.h"
#include "tensor/cast.h"
#include "tensor/relayout.h"

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

std::unique_ptr<DeviceMemory> HostDevice::allocate_staging(std::uint64_t bytes, const char* purpose) {
  return allocate(bytes, purpose);
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

void HostDevice::copy_in(const std::byte* host, std::byte* to, std::uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, host, bytes);
}

void HostDevice::copy_out(const std::byte* from, std::byte* host, std::uint64_t bytes) {
  if (bytes > 0) std::memcpy(host, from, bytes);
}

void HostDevice::cast(DType from, DType to, const std::byte* in, std::uint64_t count, std::byte* out) {
  if (count > 0) cast_elements(from, to, in, count, out);
}

void HostDevice::copy_box(std::uint32_t element_size, const Box& box, const std::byte* from,
                          const Box& from_box, std::byte* to, const Box& to_box) {
  relayout(make_relayout(element_size, box, from_box, to_box), from, to);
}

void HostDevice::checksum_box(const Shape& shape, const Box& box, std::uint32_t element_size,
                              const std::byte* data, std::byte* sum) {
  std::uint64_t crc = box_checksum(shape, box, element_size, data);
  std::memcpy(sum, &crc, sizeof crc);
}

Mark HostDevice::mark() {
  marked_s_[next_ % kMarks] = now_s();
  return next_++;
}

std::optional<double> HostDevice::passed(Mark mark) {
  if (mark >= next_ || next_ - mark > kMarks)
    fail(Status::internal, "mark {} of {} is not kept", mark, next_);
  return marked_s_[mark % kMarks];
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
