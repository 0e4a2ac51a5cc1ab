#include "backend/hdf5/sink.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "backend/hdf5/create.h"
#include "backend/hdf5/open_file.h"
#include "backend/hdf5/reader.h"
#include "base/bytes.h"
#include "base/crc64.h"
#include "base/narrow.h"
#include "plan/byte_share.h"
#include "tensor/box_checksum.h"

namespace slabload {
namespace {

constexpr std::uint64_t kRereadBytes = 8 * kMiB;
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

// What a file that is being written is called, behind its target's name.
constexpr const char* kTemporary = ".slabload-tmp-";

// What stands behind that in a name: "pid-number-host".
struct TemporaryName {
  long pid = 0;
  std::string host;

  explicit TemporaryName(const std::string& rest) {
    int number = 0, host_at = 0;
    if (std::sscanf(rest.c_str(), "%9ld-%9d-%n", &pid, &number, &host_at) == 2 && host_at > 0)
      host = rest.substr(static_cast<std::size_t>(host_at));
  }
  // True if there is such a process, here, and it has not ended; of one that has, its parent may not have heard yet.
  bool runs() const {
    if (pid <= 0 || (kill(static_cast<pid_t>(pid), 0) != 0 && errno != EPERM)) return false;
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));  // "PID (NAME) STATE ..."
    std::string line;
    std::getline(stat, line);
    const std::size_t name_end = line.rfind(") ");
    return name_end == std::string::npos || line.compare(name_end + 2, 1, "Z") != 0;
  }
};

}  // namespace

Hdf5Sink::Hdf5Sink(std::string target, Control& control, bool replace_existing, Hdf5SinkOptions options,
                   MPI_Comm comm)
    : target_(std::move(target)),
      control_(control),
      replace_existing_(replace_existing),
      options_(options),
      comm_(comm) {}

Hdf5Sink::~Hdf5Sink() {
  abandon();
}

void Hdf5Sink::refuse_existing() const {
  struct stat st {};
  if (lstat(target_.c_str(), &st) != 0) return;
  if (S_ISDIR(st.st_mode)) fail(Status::file, "file '{}': is a folder", printable(target_));
  if (S_ISLNK(st.st_mode)) {
    fail(Status::file, "file '{}': is a symbolic link; it was not replaced: name the file that it leads to",
         printable(target_));
  }
  if (!S_ISREG(st.st_mode)) fail(Status::file, "file '{}': is no regular file; it was not replaced", printable(target_));
  if (!replace_existing_)
    fail(Status::file, "file '{}': exists already; it was not replaced", printable(target_));
}

// What writers that were killed have left beside the target: named, not removed, since on another host one may still write.
void Hdf5Sink::note_stale_files() {
  const std::filesystem::path target(target_);
  const std::string prefix = target.filename().string() + kTemporary;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(host::folder_of(target_), failed), end; !failed && it != end;
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    std::error_code no_size;
    const std::uint64_t bytes = it->file_size(no_size);
    const TemporaryName of(name.substr(prefix.size()));
    if (of.host == control_.host() && of.runs()) continue;
    notes_.push_back(fmt::format(
        "WARNING: '{}' ({}) is left of a writer that {}; remove it", printable(it->path().string()),
        no_size ? "?" : format_bytes(bytes),
        of.host == control_.host() ? "was ended before it was done" : "ran on another host, if it has ended"));
  }
}

std::string Hdf5Sink::create_temporary(const TensorIndex& index) {
  refuse_existing();
  note_stale_files();
  // A file of such a name is from a process that is gone: leave it, take the next number.
  struct stat st {};
  for (int i = 0; i < 1000; ++i) {
    temporary_ = fmt::format("{}{}{}-{}-{}", target_, kTemporary, getpid(), i, control_.host());
    if (lstat(temporary_.c_str(), &st) != 0) break;
  }
  host::File file = host::File::create_new(temporary_);
  owner_ = true;
  // Before the library is asked: a file that it cannot close it keeps open for good, and crashes in
  // MPI_Finalize.
  if (options_.deflate == 0) file.reserve(expected_bytes(index, temporary_));
  file.close();
  hdf5::CreatedFile made = hdf5::create_file(temporary_, index, options_);
  notes_.insert(notes_.end(), made.notes.begin(), made.notes.end());
  file = host::File::open_write(temporary_);
  file.reserve(made.index.files[0].size);
  file.sync();
  return to_bytes(made.index);
}

void Hdf5Sink::create(const TensorIndex& index) {
  std::string bytes;
  together(control_, [&] {
    if (control_.rank() == 0) bytes = create_temporary(index);
  });
  made_ = index_from_bytes(control_.broadcast(std::move(bytes)));
  temporary_ = made_.path;
  together(control_, [&] { file_ = host::File::open_write(temporary_); });
  const bool chunked = std::any_of(made_.tensors.begin(), made_.tensors.end(),
                                   [](const TensorMeta& tensor) { return tensor.chunked(); });
  if (!chunked) return;
  if (comm_ == MPI_COMM_NULL) fail(Status::internal, "file '{}': chunks without a communicator", printable(target_));
  together(control_, [&] { chunks_.emplace(temporary_, comm_); });
}

void Hdf5Sink::write(std::size_t tensor, FlatRange range, const void* data) {
  if (tensor >= made_.tensors.size()) fail(Status::internal, "no tensor number {} in '{}'", tensor, target_);
  const TensorMeta& meta = made_.tensors[tensor];
  if (range.empty()) return;
  if (range.end > meta.elements()) {
    fail(Status::internal, "file '{}': tensor '{}': elements [{}, {}) of {}", printable(temporary_),
         printable(meta.name), range.begin, range.end, meta.elements());
  }
  if (collective(tensor)) fail(Status::internal, "tensor '{}' is written by all ranks together", printable(meta.name));
  const std::uint64_t size = dtype_size(meta.dtype);
  if (!meta.chunked()) return write_bytes(meta.offset + range.begin * size, range.size() * size, data, meta);
  const auto* from = static_cast<const std::byte*>(data);
  for (const Box& box : flat_boxes(meta.shape, range)) {
    chunks_->write(meta, &box, from);
    from += box.elements() * size;
  }
}

void Hdf5Sink::write_extent(std::size_t first, std::size_t last, std::uint64_t offset, std::uint64_t bytes,
                            const void* data) {
  const TensorMeta& begin = made_.tensors.at(first);
  const TensorMeta& end = made_.tensors.at(last);
  if (begin.storage != StorageKind::contiguous || end.storage != StorageKind::contiguous || offset < begin.offset ||
      offset + bytes > end.offset + end.bytes()) {
    fail(Status::internal, "file '{}': bytes {} to {} are not those of tensors '{}' to '{}'", printable(temporary_), offset,
         offset + bytes, printable(begin.name), printable(end.name));
  }
  write_bytes(offset, bytes, data, begin);
}

void Hdf5Sink::write_together(std::size_t tensor, const Box* box, const void* data) {
  if (!collective(tensor)) fail(Status::internal, "tensor {} is written by each rank alone", tensor);
  chunks_->write(made_.tensors.at(tensor), box, data);
}

// `tensor`: for the message.
void Hdf5Sink::write_bytes(std::uint64_t offset, std::uint64_t bytes, const void* data, const TensorMeta& tensor) {
  try {
    file_.write_at(offset, data, bytes);
  } catch (const Error& error) {
    fail(error.status(), "{} (tensor {}, byte {} of the file)", error.message(), printable(tensor.name), offset);
  }
}

void Hdf5Sink::sync_writes() {
  if (chunks_) chunks_->close();
  chunks_.reset();
  if (!file_.is_open()) fail(Status::internal, "file '{}': commit before create", printable(target_));
  file_.sync();
  // What is read again comes from the disk then, where the system can forget what it holds.
  if (options_.reread) file_.forget();
  file_.close();
}

// Each rank an even share of the tensors in question, whoever wrote them.
void Hdf5Sink::reread(const std::vector<std::uint64_t>& crc64) {
  TensorIndex index = made_;
  std::vector<std::uint64_t> linear(index.tensors.size(), 0);
  bool any = false;
  for (TensorMeta& tensor : index.tensors) {
    const bool wanted = options_.reread || tensor.filtered();
    any |= wanted && tensor.bytes() != 0;
    if (!wanted) tensor.shape = Shape{0};  // has no share
  }
  if (!any) return;
  together(control_, [&] {
    index.files[0] = hdf5::stat_file(temporary_);
    Hdf5Storage storage(index);
    std::vector<std::byte> buffer;
    for (const SharePart& part : byte_share(index, control_.rank(), control_.ranks())) {
      const TensorMeta& tensor = index.tensors[part.tensor];
      const std::uint64_t size = dtype_size(tensor.dtype);
      for_each_piece(part.range, piece_elements(tensor, kRereadBytes), [&](FlatRange piece) {
        for (const Box& box : flat_boxes(tensor.shape, piece)) {
          buffer.resize(box.elements() * size);
          storage.read(tensor, box, buffer.data());
          linear[part.tensor] ^= box_checksum(tensor.shape, box, dtype_size(tensor.dtype), buffer.data());
        }
      });
    }
  });
  control_.bit_xor(linear);
  for (std::size_t t = 0; t < linear.size(); ++t) {
    const TensorMeta& tensor = index.tensors[t];
    if (tensor.bytes() == 0 || crc64_finish(linear[t], tensor.bytes()) == crc64[t]) continue;
    fail_agreed(Status::wrong_data, fmt::format("file '{}': tensor '{}' was written, but reads back as something else (CRC-64 "
                                                "{:016x}, written {:016x}); the target is as it was",
                                                printable(temporary_), printable(tensor.name),
                                                crc64_finish(linear[t], tensor.bytes()), crc64[t]));
  }
}

void Hdf5Sink::commit(const std::vector<std::uint64_t>& crc64) {
  together(control_, [&] { sync_writes(); });
  reread(crc64);
  together(control_, [&] {
    if (control_.rank() != 0) return;
    hdf5::finish_file(temporary_, made_, crc64);
    host::File::open_write(temporary_).sync();
    host::publish(temporary_, target_, replace_existing_);
    owner_ = false;
  });
}

void Hdf5Sink::abandon() noexcept {
  // Not closed: that would write to a file that is going, and after an error of the disk take the process with it.
  if (chunks_) chunks_->abandon();
  chunks_.reset();
  file_ = host::File();
  if (owner_) unlink(temporary_.c_str());
  owner_ = false;
}

void Hdf5Sink::abandon_alone() noexcept {
  owner_ = owner_ || !temporary_.empty();
  abandon();
}

}  // namespace slabload
