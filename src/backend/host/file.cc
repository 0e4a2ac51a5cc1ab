#include "backend/host/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload::host {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1}
                                 << 29;  // one system call's share; Linux stops just below 2 GiB

[[noreturn]] void fail_errno(const std::string& path, const char* what, int code) {
  fail(Status::file, "{}: cannot {}: {}", printable(path), what, errno_text(code));
}

FileState from_stat(const struct stat& s) {
  return {static_cast<std::uint64_t>(s.st_size),
          static_cast<std::int64_t>(s.st_mtim.tv_sec) * 1000000000 + s.st_mtim.tv_nsec,
          static_cast<std::uint64_t>(s.st_ino)};
}

int open_retrying(const std::string& path, int flags, mode_t mode) {
  for (;;) {
    int fd = ::open(path.c_str(), flags, mode);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

// Offsets are signed in the system's interface.
void check_range(const std::string& path, std::uint64_t offset, std::uint64_t size) {
  std::uint64_t end = 0;
  if (!checked_add(offset, size, &end) || end > static_cast<std::uint64_t>(INT64_MAX)) {
    fail(Status::file, "{}: {} bytes at offset {} are beyond any file", printable(path), size, offset);
  }
}

}  // namespace

FileState file_state(const std::string& path) {
  struct stat s;
  if (::stat(path.c_str(), &s) != 0) fail_errno(path, "look at the file", errno);
  return from_stat(s);
}

File File::open_read(const std::string& path) {
  // O_NONBLOCK keeps the open of a pipe from waiting for a writer; it changes nothing for a regular file.
  int fd = open_retrying(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) fail_errno(path, "open for reading", errno);
  File file(path, fd);
  struct stat s;
  if (::fstat(fd, &s) != 0) fail_errno(path, "look at the file", errno);
  if (!S_ISREG(s.st_mode)) fail(Status::file, "{}: not a regular file", printable(path));
  return file;
}

File File::open_write(const std::string& path) {
  int fd = open_retrying(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) fail_errno(path, "open for writing", errno);
  File file(path, fd);
  struct stat s;
  if (::fstat(fd, &s) != 0) fail_errno(path, "look at the file", errno);
  if (!S_ISREG(s.st_mode)) fail(Status::file, "{}: not a regular file", printable(path));
  return file;
}

File File::create_new(const std::string& path, const std::string& called) {
  int fd = open_retrying(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  const std::string& name = called.empty() ? path : called;
  if (fd < 0) fail_errno(name, "create", errno);
  return File(name, fd);
}

void File::reset() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FileState File::state() const {
  struct stat s;
  if (::fstat(fd_, &s) != 0) fail_errno(path_, "look at the file", errno);
  return from_stat(s);
}

void File::read_at(std::uint64_t offset, void* out, std::uint64_t size) const {
  check_range(path_, offset, size);
  char* to = static_cast<char*>(out);
  std::uint64_t done = 0;
  while (done < size) {
    ssize_t got = ::pread(fd_, to + done, std::min(kPiece, size - done), static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      fail(Status::file, "{}: cannot read {} bytes at offset {}: {}", printable(path_), size, offset,
           errno_text(errno));
    }
    if (got == 0) {
      fail(Status::file, "{}: the file ends at byte {}, wanted {} bytes at offset {}: it was cut short",
           printable(path_), state().size, size, offset);
    }
    done += static_cast<std::uint64_t>(got);
  }
}

void File::write_at(std::uint64_t offset, const void* data, std::uint64_t size) {
  check_range(path_, offset, size);
  const char* from = static_cast<const char*>(data);
  std::uint64_t done = 0;
  while (done < size) {
    ssize_t put =
        ::pwrite(fd_, from + done, std::min(kPiece, size - done), static_cast<off_t>(offset + done));
    if (put < 0) {
      if (errno == EINTR) continue;
      fail(Status::file, "{}: cannot write {} bytes at offset {}: {}", printable(path_), size, offset,
           errno_text(errno));
    }
    if (put == 0) {
      fail(Status::file, "{}: cannot write {} bytes at offset {}: nothing was taken", printable(path_), size,
           offset);
    }
    done += static_cast<std::uint64_t>(put);
  }
}

bool File::reserve(std::uint64_t bytes, std::uint64_t promised) {
  check_range(path_, 0, bytes);
  if (bytes == 0) return true;
  int failed = 0;
  while (::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0) {
    failed = errno;
    if (failed != EINTR) break;
    failed = 0;
  }
  if (failed == 0) return true;
  if (failed == EOPNOTSUPP || failed == ENOSYS) {
    struct statvfs space {};
    struct stat st {};
    if (::fstatvfs(fd_, &space) != 0 || ::fstat(fd_, &st) != 0) return false;
    const std::uint64_t there =
        std::uint64_t{space.f_bavail} * space.f_frsize + narrow<std::uint64_t>(st.st_blocks) * 512;
    if (there >= promised && there - promised >= bytes) return false;
    failed = ENOSPC;
  }
  fail(Status::file, "{}: {} ({} bytes) cannot be reserved for it: {}", printable(path_), format_bytes(bytes),
       bytes, errno_text(failed));
}

void File::sync() {
  while (::fsync(fd_) != 0) {
    if (errno != EINTR) fail_errno(path_, "put the file on the disk", errno);
  }
}

void File::forget() noexcept {
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

void File::close() {
  int fd = std::exchange(fd_, -1);
  // After EINTR Linux has closed it all the same.
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail_errno(path_, "close", errno);
}

std::string folder_of(const std::string& path) {
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? std::string(".") : parent.string();
}

void sync_folder(const std::string& folder) {
  int fd = open_retrying(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) fail_errno(folder, "open the folder", errno);
  int code = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems have no fsync of folders and need none.
  if (code != 0 && code != EINVAL && code != ENOTSUP) fail_errno(folder, "sync the folder", code);
}

void publish(const std::string& from, const std::string& to, bool replace) {
  if (replace) {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(to, "rename the finished file to it", errno);
  } else if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
    int code = errno;
    if (code == EEXIST) fail(Status::file, "{}: exists already; it is not replaced", printable(to));
    if (code != EINVAL && code != ENOSYS && code != ENOTSUP)
      fail_errno(to, "rename the finished file to it", code);
    // The file system has no such rename: a hard link refuses an existing name just as surely.
    if (::link(from.c_str(), to.c_str()) != 0) {
      if (errno == EEXIST) fail(Status::file, "{}: exists already; it is not replaced", printable(to));
      fail_errno(to, "link the finished file to it", errno);
    }
    if (::unlink(from.c_str()) != 0) fail_errno(from, "remove the temporary name", errno);
  }
  sync_folder(folder_of(to));
}

}  // namespace slabload::host
