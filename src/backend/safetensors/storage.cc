#include "backend/safetensors/storage.h"

#include <utility>

#include "base/error.h"

namespace slabload {
namespace {

constexpr std::size_t kMaxOpen = 256;  // a model may have more shards than a process may have files open

template <typename Look>
void check_state(const CheckpointFile& then, Look&& look) {
  const host::FileState now = host::fresh_state(then.mtime_ns, look);
  if (now == host::FileState{then.size, then.mtime_ns, then.inode}) return;
  fail(Status::file, "{}: the file changed while it was in use ({} bytes before, {} now): start again",
       printable(then.path), then.size, now.size);
}

}  // namespace

SafetensorsStorage::SafetensorsStorage(const TensorIndex& index)
    : files_(index.files), open_(index.files.size()), used_(index.files.size()) {}

const host::File& SafetensorsStorage::file(std::uint32_t number) {
  host::File& file = open_.at(number);
  if (file.is_open()) return file;
  if (open_count_ == kMaxOpen) {
    for (host::File& other : open_) other = host::File();
    open_count_ = 0;
  }
  host::File opened = host::File::open_read(files_[number].path);
  check_state(files_[number], [&] { return opened.state(); });
  file = std::move(opened);
  used_[number] = true;
  ++open_count_;
  return file;
}

void SafetensorsStorage::read(const TensorMeta& tensor, const Box& box, void* out) {
  const std::uint64_t element = dtype_size(tensor.dtype);
  auto* to = static_cast<char*>(out);
  try {
    const host::File& source = file(tensor.file);
    for_each_run(tensor.shape, box, [&](std::uint64_t begin, std::uint64_t length) {
      source.read_at(tensor.offset + begin * element, to, length * element);
      to += length * element;
      counters_.bytes += length * element;
      ++counters_.requests;
    });
  } catch (const Error& error) {
    fail(error.status(), "{} (tensor {}, box {})", error.message(), printable(tensor.name), box.text());
  }
}

void SafetensorsStorage::read_extent(const TensorMeta& first, const TensorMeta& last, std::uint64_t offset,
                                     std::uint64_t bytes, void* out) {
  try {
    file(first.file).read_at(offset, out, bytes);
  } catch (const Error& error) {
    fail(error.status(), "{} (tensors {} to {})", error.message(), printable(first.name), printable(last.name));
  }
  counters_.bytes += bytes;
  ++counters_.requests;
}

void SafetensorsStorage::read_collective(const TensorMeta& tensor, const Box* box, void* out) {
  if (box != nullptr && !box->empty()) read(tensor, *box, out);
}

void SafetensorsStorage::check_unchanged() {
  // What this rank did not read is for others to check: a job of many ranks would ask for each file as often.
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (used_[i]) check_state(files_[i], [&] { return host::file_state(files_[i].path); });
  }
}

}  // namespace slabload
