#include "exec/copier.h"

#include <algorithm>
#include <cstddef>

#include "tensor/cast.h"

namespace slabload {
namespace {

void read_piece(Storage& source, const TensorMeta& tensor, FlatRange piece, std::byte* out) {
  const std::uint64_t element = dtype_size(tensor.dtype);
  std::byte* to = out;
  for (const Box& box : flat_boxes(tensor.shape, piece)) {
    source.read(tensor, box, to);
    to += box.elements() * element;
  }
  if (tensor.big_endian) swap_bytes(out, piece.size(), dtype_size(tensor.dtype));
}

// Compares with the source's own checksums; returns how many it had.
std::uint64_t check_checksums(const TensorIndex& index, const std::vector<std::uint64_t>& found) {
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;
  const TensorMeta* first = nullptr;
  std::uint64_t first_found = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const TensorMeta& t = index.tensors[i];
    if (!t.crc64) continue;
    ++checked;
    if (*t.crc64 == found[i]) continue;
    ++wrong;
    if (first == nullptr) {
      first = &t;
      first_found = found[i];
    }
  }
  if (first != nullptr) {
    fail(Status::wrong_data, "{}: tensor {} has CRC-64 {:016x}, recorded is {:016x}{}; nothing was written",
         printable(index.files.empty() ? index.path : index.files[first->file].path), printable(first->name),
         first_found, *first->crc64, wrong > 1 ? fmt::format(" ({} tensors are wrong)", wrong) : "");
  }
  return checked;
}

}  // namespace

TransferResult copy_checkpoint(Storage& source, const TensorIndex& index, CheckpointSink& sink,
                                 Control& control, std::uint64_t buffer_bytes, Monitor* monitor) {
  const TensorIndex target = plain_index(index);
  auto make = [&](std::size_t tensor, FlatRange range, std::byte* out) {
    read_piece(source, index.tensors[tensor], range, out);
  };
  auto check = [&](TransferResult& result) {
    source.check_unchanged();  // a changed source explains a wrong checksum, so it is said first
    result.tensors_checked = check_checksums(index, result.crc64);
  };
  std::uint64_t buffer = std::clamp<std::uint64_t>(buffer_bytes, 8, kMaxCopyBuffer);
  return transfer({index, target, buffer, make, check}, sink, control, monitor);
}

}  // namespace slabload
