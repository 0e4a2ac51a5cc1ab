#include "app/raw_read.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "backend/host/device.h"
#include "backend/host/file.h"
#include "base/error.h"
#include "base/stopwatch.h"
#include "exec/load_run.h"

namespace slabload {
namespace {

struct Extent {
  std::uint32_t file;
  std::uint64_t offset;
  std::uint64_t bytes;
};

// The file extents of a plan's reads, cut into pieces as the loader cuts them.
std::vector<Extent> extents_of(const TensorIndex& index, const LoadPlan& plan) {
  std::vector<Extent> extents;
  for (const Round& round : plan.rounds) {
    for (const ReadItem& item : round.reads) {
      const TensorMeta& tensor = index.tensors[item.tensor];
      if (tensor.storage == StorageKind::fill) continue;
      std::uint64_t size = dtype_size(tensor.dtype);
      for_each_run(tensor.shape, item.box, [&](std::uint64_t begin, std::uint64_t length) {
        for (std::uint64_t done = 0; done < length * size; done += kReadPiece) {
          extents.push_back(
              {tensor.file, tensor.offset + begin * size + done, std::min(kReadPiece, length * size - done)});
        }
      });
    }
  }
  return extents;
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail(Status::file, "{}: {}", printable(path), errno_text(errno));
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::optional<double> raw_read_rate(Session& session, const TensorIndex& index, const LoadPlan& plan,
                                    Monitor& monitor) {
  bool contiguous = std::all_of(index.tensors.begin(), index.tensors.end(), [](const TensorMeta& t) {
    return t.storage == StorageKind::contiguous || t.storage == StorageKind::fill;
  });
  if (!contiguous) return std::nullopt;
  Control& control = session.control();
  std::vector<Extent> extents;
  std::uint64_t bytes = 0;
  std::unique_ptr<DeviceMemory> memory;
  std::map<std::uint32_t, host::File> files;
  together(control, [&] {
    extents = extents_of(index, plan);
    for (const Extent& extent : extents) {
      bytes += extent.bytes;
      if (!files.count(extent.file))
        files.emplace(extent.file, host::File::open_read(index.files[extent.file].path));
    }
    memory = host::HostDevice().allocate(bytes, "the raw read");
    if (bytes > 0) std::memset(memory->data(), 1, bytes);
  });
  control.barrier();
  Stopwatch watch;
  together(control, [&] {
    std::byte* out = memory->data();
    for (const Extent& extent : extents) {
      monitor.at("raw read", nullptr);
      files.at(extent.file).read_at(extent.offset, out, extent.bytes);
      out += extent.bytes;
    }
  });
  // The agreement above waits for the slowest rank, so this is its time.
  auto nanoseconds = static_cast<std::uint64_t>(watch.seconds() * 1e9);
  control.max({&nanoseconds, 1});
  control.sum({&bytes, 1});
  if (nanoseconds == 0 || bytes == 0) return std::nullopt;
  return static_cast<double>(bytes) / static_cast<double>(nanoseconds);
}

double resident_share(const TensorIndex& index) {
  std::uint64_t resident = 0;
  std::uint64_t pages = 0;
  auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  for (const CheckpointFile& file : index.files) {
    if (file.size == 0) continue;
    Descriptor fd(file.path);
    void* map = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (map == MAP_FAILED)
      fail(Status::file, "{}: cannot be mapped: {}", printable(file.path), errno_text(errno));
    std::vector<unsigned char> present((file.size + page - 1) / page);
    int code = mincore(map, file.size, present.data());
    munmap(map, file.size);
    if (code != 0) fail(Status::file, "{}: mincore: {}", printable(file.path), errno_text(errno));
    pages += present.size();
    resident += static_cast<std::uint64_t>(
        std::count_if(present.begin(), present.end(), [](unsigned char p) { return p & 1; }));
  }
  return pages == 0 ? 0 : static_cast<double>(resident) / static_cast<double>(pages);
}

void evict(const TensorIndex& index) {
  for (const CheckpointFile& file : index.files) {
    Descriptor fd(file.path);
    if (fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS)
      fail(Status::file, "{}: fsync: {}", printable(file.path), errno_text(errno));
    if (int code = posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED)) {
      fail(Status::file, "{}: posix_fadvise: {}", printable(file.path), errno_text(code));
    }
  }
}

}  // namespace slabload
