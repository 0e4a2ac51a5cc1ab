// A file of the operating system: open, positioned reads and writes in full, errors that name the path.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

namespace slabload::host {

// What tells one state of a file from another.
struct FileState {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileState&) const = default;
};

// The state of the file at a path, symbolic links followed. Throws Status::file if there is none.
FileState file_state(const std::string& path);

// Calls look() for a state with `mtime_ns` until that is no older than `indexed_ns`, for 3 s at most, and returns the last
// answer. On a network file system a host may show for a second or two the time of a write before the last: the one that wrote
// knows better, and so does whoever indexed the file there. A file written to since is newer, which is seen at once.
template <typename Look>
auto fresh_state(std::int64_t indexed_ns, Look&& look) {
  auto state = look();
  for (int i = 0; i < 30 && state.mtime_ns < indexed_ns; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    state = look();
  }
  return state;
}

// Move-only; closes with the object. Every function throws Status::file with the path and the system's
// reason.
class File {
 public:
  File() = default;
  // Opens a regular file for reading; anything else (folder, pipe, device) is refused.
  static File open_read(const std::string& path);
  // Creates a new file for writing with the user's umask. The name must not exist, not even as a symbolic
  // link. Errors say `called`, if given, in the path's place.
  static File create_new(const std::string& path, const std::string& called = {});
  // Opens an existing regular file for writing, never through a symbolic link.
  static File open_write(const std::string& path);
  ~File() { reset(); }

  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) {
      reset();
      path_ = std::move(other.path_);
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  const std::string& path() const { return path_; }
  FileState state() const;

  // Reads exactly `size` bytes; a file that ends before them is an error.
  void read_at(std::uint64_t offset, void* out, std::uint64_t size) const;
  // Writes all `size` bytes, in calls below 1 GiB.
  void write_at(std::uint64_t offset, const void* data, std::uint64_t size);
  // Takes the disk space of the first `bytes` bytes now, so that a full disk shows before anything is written. Where
  // the file system cannot, its free space has to do, of which `promised` bytes are another file's; returns false then.
  bool reserve(std::uint64_t bytes, std::uint64_t promised = 0);
  // Puts everything written on the disk.
  void sync();
  // Lets the system drop what it keeps of the file in memory, once it has been synced; a wish.
  void forget() noexcept;
  // Closes and reports what the system held back until now; the destructor cannot.
  void close();

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  void reset() noexcept;

  std::string path_;
  int fd_ = -1;
};

// The folder that a path lies in, and putting on the disk which names a folder holds.
std::string folder_of(const std::string& path);
void sync_folder(const std::string& folder);

// Gives the finished file `from` the name `to` in the same folder and syncs the folder. An existing `to` is
// replaced if `replace` is set (a symbolic link itself, never what it points to), otherwise refused.
void publish(const std::string& from, const std::string& to, bool replace);

}  // namespace slabload::host
