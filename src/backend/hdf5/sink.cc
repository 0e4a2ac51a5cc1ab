#include "backend/hdf5/sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "backend/hdf5/create.h"
#include "base/bytes.h"
#include "base/narrow.h"

namespace slabload {
namespace {

constexpr std::uint64_t kPiece = kGiB;  // Linux moves less than 2 GiB in one call

// A descriptor for the length of a scope.
class ScopedFd {
 public:
  ScopedFd(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC)) {
    if (fd_ < 0) fail(Status::file, "file '{}': cannot be opened: {}", printable(path), errno_text(errno));
  }
  ~ScopedFd() { close(fd_); }
  ScopedFd(const ScopedFd&) = delete;
  ScopedFd& operator=(const ScopedFd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void sync_path(const std::string& path, int flags) {
  ScopedFd fd(path, flags);
  // Some file systems cannot sync a folder and say so with EINVAL.
  if (fsync(fd.get()) != 0 && !(errno == EINVAL && (flags & O_DIRECTORY) != 0)) {
    fail(Status::file, "file '{}': cannot be synced: {}", printable(path), errno_text(errno));
  }
}

// Takes the disk space of the whole file now. Where the file system cannot, its free space has to do.
void reserve(const std::string& path, std::uint64_t bytes) {
  ScopedFd fd(path, O_RDWR);
  int failed = 0;
  while (fallocate(fd.get(), 0, 0, narrow<off_t>(bytes)) != 0) {
    failed = errno;
    if (failed != EINTR) break;
    failed = 0;
  }
  if (failed == EOPNOTSUPP || failed == ENOSYS) {
    struct statvfs space {};
    struct stat st {};
    if (fstatvfs(fd.get(), &space) != 0 || fstat(fd.get(), &st) != 0) return;
    std::uint64_t there =
        std::uint64_t{space.f_bavail} * space.f_frsize + narrow<std::uint64_t>(st.st_blocks) * 512;
    if (there >= bytes) return;
    failed = ENOSPC;
  }
  if (failed != 0) {
    fail(Status::file, "file '{}': {} ({} bytes) cannot be reserved for it: {}", printable(path),
         format_bytes(bytes), bytes, errno_text(failed));
  }
}

// About what the file will take, rather more than less; the last word has the file as created.
std::uint64_t expected_bytes(const TensorIndex& index, const std::string& path) {
  constexpr std::uint64_t kHeaders =
      1024;  // object header, link and attributes of a tensor; measured: 600 bytes
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  std::uint64_t sum = 64 * kKiB;
  for (const auto& [key, value] : index.metadata) sum += 2 * (key.size() + value.size());
  for (const TensorMeta& tensor : index.tensors) {
    std::uint64_t bytes = tensor.bytes();
    std::uint64_t extra = kHeaders + 4 * tensor.name.size() + (bytes >= 64 * kKiB ? 4 * kKiB : 0);
    if (bytes > kMost || (sum += bytes + extra) > kMost) {
      fail(Status::file, "file '{}': the tensors are larger together than any file can be", printable(path));
    }
  }
  return sum;
}

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

Hdf5Sink::Hdf5Sink(std::string target, Control& control, bool replace_existing)
    : target_(std::move(target)), control_(control), replace_existing_(replace_existing) {}

Hdf5Sink::~Hdf5Sink() {
  abandon();
}

void Hdf5Sink::refuse_existing() const {
  struct stat st {};
  if (lstat(target_.c_str(), &st) != 0) return;
  if (S_ISDIR(st.st_mode)) fail(Status::file, "file '{}': is a folder", printable(target_));
  if (!replace_existing_)
    fail(Status::file, "file '{}': exists already; it was not replaced", printable(target_));
}

std::string Hdf5Sink::create_temporary(const TensorIndex& index) {
  refuse_existing();
  temporary_ = fmt::format("{}.slabload-tmp-{}", target_, getpid());
  // A file of that name is from a process that is gone or on another host: leave it, take the next name.
  struct stat st {};
  for (int i = 1; i < 1000 && lstat(temporary_.c_str(), &st) == 0; ++i) {
    temporary_ = fmt::format("{}.slabload-tmp-{}-{}", target_, getpid(), i);
  }
  int fd = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0)
    fail(Status::file, "file '{}': cannot be created: {}", printable(temporary_), errno_text(errno));
  close(fd);
  owner_ = true;
  // Before the library is asked: a file that it cannot close it keeps open for good, and crashes in
  // MPI_Finalize.
  reserve(temporary_, expected_bytes(index, temporary_));
  TensorIndex made = hdf5::create_file(temporary_, index);
  reserve(temporary_, made.files[0].size);
  sync_path(temporary_, O_RDWR);
  return to_bytes(made);
}

void Hdf5Sink::create(const TensorIndex& index) {
  std::string bytes;
  together(control_, [&] {
    if (control_.rank() == 0) bytes = create_temporary(index);
  });
  made_ = index_from_bytes(control_.broadcast(std::move(bytes)));
  temporary_ = made_.path;
  together(control_, [&] {
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0)
      fail(Status::file, "file '{}': cannot be opened: {}", printable(temporary_), errno_text(errno));
  });
}

void Hdf5Sink::write(std::size_t tensor, FlatRange range, const void* data) {
  if (tensor >= made_.tensors.size()) fail(Status::internal, "no tensor number {} in '{}'", tensor, target_);
  const TensorMeta& meta = made_.tensors[tensor];
  if (range.empty()) return;
  if (range.end > meta.elements()) {
    fail(Status::internal, "file '{}': tensor '{}': elements [{}, {}) of {}", printable(temporary_),
         printable(meta.name), range.begin, range.end, meta.elements());
  }
  std::uint64_t size = dtype_size(meta.dtype);
  std::uint64_t offset = meta.offset + range.begin * size;
  std::uint64_t left = range.size() * size;
  const char* from = static_cast<const char*>(data);
  while (left > 0) {
    ssize_t done = pwrite(fd_, from, std::min(left, kPiece), narrow<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      fail(Status::file, "file '{}': tensor '{}': cannot write at byte {}: {}", printable(temporary_),
           printable(meta.name), offset, done < 0 ? errno_text(errno) : "nothing was written");
    }
    from += done;
    offset += static_cast<std::uint64_t>(done);
    left -= static_cast<std::uint64_t>(done);
  }
}

void Hdf5Sink::rename_over_target() {
  std::string text =
      fmt::format("file '{}': cannot be renamed to '{}'", printable(temporary_), printable(target_));
  if (!replace_existing_) {
    if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST)
      fail(Status::file, "file '{}': exists already; it was not replaced", printable(target_));
    if (errno != EINVAL && errno != ENOSYS) fail(Status::file, "{}: {}", text, errno_text(errno));
    refuse_existing();  // a file system without that call: the next best
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail(Status::file, "{}: {}", text, errno_text(errno));
}

void Hdf5Sink::commit(const std::vector<std::uint64_t>& crc64) {
  together(control_, [&] {
    int fd = std::exchange(fd_, -1);
    if (fd < 0) fail(Status::internal, "file '{}': commit before create", printable(target_));
    int failed = fsync(fd) == 0 ? 0 : errno;
    // Network file systems report late write errors here.
    if (close(fd) != 0 && failed == 0) failed = errno;
    if (failed != 0)
      fail(Status::file, "file '{}': cannot be synced: {}", printable(temporary_), errno_text(failed));
  });
  together(control_, [&] {
    if (control_.rank() != 0) return;
    hdf5::finish_file(temporary_, made_, crc64);
    sync_path(temporary_, O_RDWR);
    rename_over_target();
    owner_ = false;
    sync_path(folder_of(target_), O_RDONLY | O_DIRECTORY);
  });
}

void Hdf5Sink::abandon() noexcept {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  if (owner_) unlink(temporary_.c_str());
  owner_ = false;
}

}  // namespace slabload
