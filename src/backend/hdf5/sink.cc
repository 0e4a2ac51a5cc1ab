#include "backend/hdf5/sink.h"

#include <sys/stat.h>
#include <unistd.h>

#include "backend/hdf5/create.h"
#include "base/bytes.h"
#include "base/narrow.h"

namespace slabload {
namespace {

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
  host::File file = host::File::create_new(temporary_);
  owner_ = true;
  // Before the library is asked: a file that it cannot close it keeps open for good, and crashes in
  // MPI_Finalize.
  file.reserve(expected_bytes(index, temporary_));
  file.close();
  TensorIndex made = hdf5::create_file(temporary_, index);
  file = host::File::open_write(temporary_);
  file.reserve(made.files[0].size);
  file.sync();
  return to_bytes(made);
}

void Hdf5Sink::create(const TensorIndex& index) {
  std::string bytes;
  together(control_, [&] {
    if (control_.rank() == 0) bytes = create_temporary(index);
  });
  made_ = index_from_bytes(control_.broadcast(std::move(bytes)));
  temporary_ = made_.path;
  together(control_, [&] { file_ = host::File::open_write(temporary_); });
}

void Hdf5Sink::write(std::size_t tensor, FlatRange range, const void* data) {
  if (tensor >= made_.tensors.size()) fail(Status::internal, "no tensor number {} in '{}'", tensor, target_);
  const TensorMeta& meta = made_.tensors[tensor];
  if (range.empty()) return;
  if (range.end > meta.elements()) {
    fail(Status::internal, "file '{}': tensor '{}': elements [{}, {}) of {}", printable(temporary_),
         printable(meta.name), range.begin, range.end, meta.elements());
  }
  const std::uint64_t size = dtype_size(meta.dtype);
  try {
    file_.write_at(meta.offset + range.begin * size, data, range.size() * size);
  } catch (const Error& error) {
    fail(error.status(), "{} (tensor {})", error.message(), printable(meta.name));
  }
}

void Hdf5Sink::commit(const std::vector<std::uint64_t>& crc64) {
  together(control_, [&] {
    if (!file_.is_open()) fail(Status::internal, "file '{}': commit before create", printable(target_));
    file_.sync();
    file_.close();
  });
  together(control_, [&] {
    if (control_.rank() != 0) return;
    hdf5::finish_file(temporary_, made_, crc64);
    host::File::open_write(temporary_).sync();
    host::publish(temporary_, target_, replace_existing_);
    owner_ = false;
  });
}

void Hdf5Sink::abandon() noexcept {
  file_ = host::File();
  if (owner_) unlink(temporary_.c_str());
  owner_ = false;
}

}  // namespace slabload
