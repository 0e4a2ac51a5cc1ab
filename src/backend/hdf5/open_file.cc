#include "backend/hdf5/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "backend/host/file.h"
#include "base/narrow.h"

namespace slabload::hdf5 {

CheckpointFile stat_file(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    fail(Status::file, "file '{}': a name with a zero byte", printable(path));
  // O_NONBLOCK so that a pipe under that name does not block.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(Status::file, "file '{}': cannot be opened: {}", printable(path), errno_text(errno));
  struct stat st {};
  int failed = fstat(fd, &st) == 0 ? 0 : errno;
  close(fd);
  if (failed != 0) fail(Status::file, "file '{}': {}", printable(path), errno_text(failed));
  if (S_ISDIR(st.st_mode)) fail(Status::file, "file '{}': is a folder, not an HDF5 file", printable(path));
  if (!S_ISREG(st.st_mode)) fail(Status::file, "file '{}': is not a regular file", printable(path));
  CheckpointFile out;
  out.path = path;
  out.size = narrow<std::uint64_t>(st.st_size);
  out.mtime_ns = std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
  out.inode = st.st_ino;
  return out;
}

bool is_hdf5(const std::string& path) {
  QuietErrors quiet;
  return H5Fis_hdf5(path.c_str()) > 0;
}

void check_same(const CheckpointFile& then) {
  CheckpointFile now = host::fresh_state(then.mtime_ns, [&] { return stat_file(then.path); });
  std::string name = printable(then.path);
  if (now.size < then.size) {
    fail(Status::file, "file '{}': was cut short since it was indexed, from {} to {} bytes", name, then.size,
         now.size);
  }
  if (now.size != then.size) {
    fail(Status::file, "file '{}': changed since it was indexed, from {} to {} bytes", name, then.size,
         now.size);
  }
  if (now.inode != then.inode) {
    fail(Status::file,
         "file '{}': is another file (inode {}) than the one that was indexed (inode {}): replaced "
         "meanwhile, or not the same file system on this host",
         name, now.inode, then.inode);
  }
  if (now.mtime_ns != then.mtime_ns)
    fail(Status::file, "file '{}': was written to since it was indexed", name);
}

namespace {

// A lock that another program holds, and one that the file system does not give, differ in the error number
// that the library puts into its text.
[[noreturn]] void fail_lock(const std::string& name, const std::vector<std::string>& stack) {
  constexpr std::string_view kWord = "errno = ";
  for (const std::string& line : stack) {
    std::size_t at = line.find(kWord);
    if (line.find("unable to lock file") == std::string::npos || at == std::string::npos) continue;
    int code = std::atoi(line.c_str() + at + kWord.size());
    if (code == EWOULDBLOCK) {
      fail(Status::file,
           "file '{}': held by a writer: wait until it has closed the file (if no program has it open for "
           "writing, set HDF5_USE_FILE_LOCKING=FALSE): {}",
           name, errno_text(code));
    }
    fail(
        Status::file,
        "file '{}': its file system refuses locks ({}): set HDF5_USE_FILE_LOCKING=FALSE if no program writes "
        "to the file meanwhile",
        name, errno_text(code));
  }
  fail(Status::file,
       "file '{}': held by a writer, or on a file system without locks (then set "
       "HDF5_USE_FILE_LOCKING=FALSE): {}",
       name, stack.front());
}

}  // namespace

void fail_open(const std::string& path) {
  std::vector<std::string> stack = error_stack();
  std::string name = printable(path);
  auto says = [&](std::string_view words) {
    return std::any_of(stack.begin(), stack.end(),
                       [&](const std::string& line) { return line.find(words) != std::string::npos; });
  };
  if (says("file signature not found")) fail(Status::file, "file '{}': not an HDF5 file", name);
  if (says("unable to lock file")) fail_lock(name, stack);
  if (says("already open for write") || says("consistency flags")) {
    fail(Status::file,
         "file '{}': open for writing, or left so by a writer that crashed (then h5clear --status clears the "
         "mark)",
         name);
  }
  if (says("truncated file")) fail(Status::file, "file '{}': cut short: {}", name, stack.front());
  fail(Status::file, "file '{}': cannot be opened as HDF5: {}", name,
       stack.empty() ? "no reason given" : stack.front());
}

FileHandle open_serial(const std::string& path) {
  Where where{path};
  PropertyHandle fapl(SLABLOAD_HDF5(where, H5Pcreate, H5P_FILE_ACCESS));
  SLABLOAD_HDF5(where, H5Pset_fapl_sec2, fapl.get());
  // The sieve buffer would read a wide strip twice over.
  SLABLOAD_HDF5(where, H5Pset_sieve_buf_size, fapl.get(), 1);
  FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, fapl.get()));
  if (!file) fail_open(path);
  return file;
}

}  // namespace slabload::hdf5
