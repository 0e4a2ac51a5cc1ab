#include "backend/safetensors/sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/error.h"

namespace slabload {
namespace {

namespace fs = std::filesystem;

constexpr int kTemporaryNames = 1000;

// The names in a folder. Throws if one is not a file of a set: such a folder is not ours to replace.
std::vector<std::string> set_names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  fs::directory_iterator entry(folder, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename();
    if (!safetensors::is_set_name(name) || !fs::is_regular_file(entry->symlink_status())) {
      fail(Status::file, "{}: holds {}, which is no file of an export; it was not replaced", printable(folder),
           printable(name));
    }
    names.push_back(std::move(name));
  }
  if (code) fail(Status::file, "{}: cannot list the folder: {}", printable(folder), code.message());
  return names;
}

void remove_set(const std::string& folder, const std::vector<std::string>& names) noexcept {
  for (const std::string& name : names) ::unlink((folder + "/" + name).c_str());
  ::rmdir(folder.c_str());
}

}  // namespace

SafetensorsSink::SafetensorsSink(std::string folder, Control& control, std::uint64_t max_file_bytes,
                                 bool replace_existing)
    : target_(std::move(folder)),
      control_(control),
      max_file_bytes_(max_file_bytes),
      replace_existing_(replace_existing) {
  while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
}

SafetensorsSink::~SafetensorsSink() {
  abandon();
}

void SafetensorsSink::check_target() const {
  const std::string name = fs::path(target_).filename();
  if (name.empty() || name == "." || name == "..")
    fail(Status::file, "{}: is no name for a new folder", printable(target_));
  struct stat st {};
  if (::lstat(target_.c_str(), &st) != 0) return;
  if (!replace_existing_) fail(Status::file, "{}: exists already; it was not replaced", printable(target_));
  if (!S_ISDIR(st.st_mode)) fail(Status::file, "{}: exists and is no folder; it was not replaced", printable(target_));
  set_names_in(target_);
}

void SafetensorsSink::make_folder() {
  check_target();
  // A folder of that name is from a process that is gone or on another host: leave it, take the next name.
  for (int i = 0; i < kTemporaryNames; ++i) {
    temporary_ = fmt::format("{}.slabload-tmp-{}{}", target_, ::getpid(), i == 0 ? "" : fmt::format("-{}", i));
    if (::mkdir(temporary_.c_str(), 0777) == 0) {
      owner_ = true;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail(Status::file, "{}: cannot make the folder: {}", printable(temporary_), errno_text(errno));
}

// All files with their headers, and the space of all.
void SafetensorsSink::make_files() {
  std::uint64_t promised = 0;
  for (const safetensors::PlannedFile& planned : set_.files) {
    host::File file = host::File::create_new(path_of(planned.name));
    if (!file.reserve(planned.size, promised)) promised += planned.size;
    file.write_at(0, planned.header.data(), planned.header.size());
    file.sync();
    file.close();
  }
}

void SafetensorsSink::create(const TensorIndex& index) {
  index_ = index;
  together(control_, [&] { set_ = safetensors::split_into_files(index_, max_file_bytes_, target_); });
  together(control_, [&] {
    if (control_.rank() != 0) return;
    make_folder();
    make_files();
  });
  temporary_ = control_.broadcast(temporary_);
  // A folder that only rank 0's host has shows now.
  together(control_, [&] { use_file(0); });
}

void SafetensorsSink::use_file(std::uint32_t number) {
  if (open_.is_open() && open_number_ == number) return;
  close_file();
  open_ = host::File::open_write(path_of(set_.files.at(number).name));
  open_number_ = number;
}

void SafetensorsSink::close_file() {
  if (!open_.is_open()) return;
  // Whoever wrote hears of errors: another descriptor may not.
  open_.sync();
  open_.close();
}

void SafetensorsSink::write(std::size_t tensor, FlatRange range, const void* data) {
  if (tensor >= set_.places.size()) fail(Status::internal, "no tensor number {} in '{}'", tensor, printable(target_));
  if (range.empty()) return;
  const TensorMeta& meta = index_.tensors[tensor];
  if (range.end > meta.elements()) {
    fail(Status::internal, "{}: tensor {}: elements [{}, {}) of {}", printable(target_), printable(meta.name), range.begin,
         range.end, meta.elements());
  }
  const std::uint64_t size = dtype_size(meta.dtype);
  const safetensors::TensorPlace& place = set_.places[tensor];
  try {
    use_file(place.file);
    open_.write_at(place.offset + range.begin * size, data, range.size() * size);
  } catch (const Error& error) {
    fail(error.status(), "{} (tensor {})", error.message(), printable(meta.name));
  }
}

void SafetensorsSink::rename_over_target() {
  check_target();
  auto rename_failed = [&] {
    fail(Status::file, "{}: cannot be renamed to {}: {}", printable(temporary_), printable(target_), errno_text(errno));
  };
  auto renamed = [&](unsigned how) {
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), how) == 0) return true;
    if (errno == EEXIST) fail(Status::file, "{}: exists already; it was not replaced", printable(target_));
    // A file system without that call does the next best.
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) rename_failed();
    return false;
  };
  struct stat st {};
  std::string old;
  if (::lstat(target_.c_str(), &st) != 0) {
    // Without the call: at worst an empty folder is replaced.
    if (!renamed(RENAME_NOREPLACE) && ::rename(temporary_.c_str(), target_.c_str()) != 0) rename_failed();
  } else if (renamed(RENAME_EXCHANGE)) {
    old = temporary_;
  } else {
    old = temporary_ + "-old";
    if (::rename(target_.c_str(), old.c_str()) != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0)
      rename_failed();
  }
  owner_ = false;
  host::sync_folder(host::folder_of(target_));
  if (!old.empty()) remove_set(old, set_names_in(old));
}

void SafetensorsSink::write_extent(std::size_t, std::size_t, std::uint64_t, std::uint64_t, const void*) {
  fail(Status::internal, "{}: an extent of several tensors in a set of files", printable(target_));
}

void SafetensorsSink::write_together(std::size_t, const Box*, const void*) {
  fail(Status::internal, "{}: nothing is written by all ranks together here", printable(target_));
}

void SafetensorsSink::commit(const std::vector<std::uint64_t>&) {
  together(control_, [&] {
    if (temporary_.empty()) fail(Status::internal, "{}: commit before create", printable(target_));
    close_file();
  });
  together(control_, [&] {
    if (control_.rank() != 0) return;
    if (set_.files.size() > 1) {
      const std::string text = safetensors::index_text(index_, set_);
      host::File file = host::File::create_new(path_of(safetensors::kIndexName));
      file.write_at(0, text.data(), text.size());
      file.sync();
      file.close();
    }
    host::sync_folder(temporary_);
    rename_over_target();
  });
}

void SafetensorsSink::abandon() noexcept {
  open_ = host::File();
  if (!owner_) return;
  owner_ = false;
  std::vector<std::string> names{safetensors::kIndexName};
  for (const safetensors::PlannedFile& file : set_.files) names.push_back(file.name);
  remove_set(temporary_, names);
}

}  // namespace slabload
