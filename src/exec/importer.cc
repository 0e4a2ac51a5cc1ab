#include "exec/importer.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "base/stopwatch.h"
#include "exec/byte_share.h"
#include "exec/tensor_checksums.h"
#include "tensor/cast.h"

namespace slabload {
namespace {

// What the sink is to make of the source: the same tensors, plain and little-endian.
TensorIndex target_of(const TensorIndex& source) {
  TensorIndex target = source;
  for (TensorMeta& t : target.tensors) {
    t.big_endian = false;
    t.storage = StorageKind::contiguous;
    t.stored_bytes = t.bytes();
    t.chunk.clear();
    t.filters.clear();
    t.fill.clear();
    t.crc64.reset();
  }
  return target;
}

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
    fail(Status::wrong_data, "{}: tensor {} has CRC-64 {:016x}, recorded is {:016x}{}; nothing was imported",
         printable(index.files.empty() ? index.path : index.files[first->file].path), printable(first->name),
         first_found, *first->crc64, wrong > 1 ? fmt::format(" ({} tensors are wrong)", wrong) : "");
  }
  return checked;
}

}  // namespace

TransferResult import_checkpoint(Storage& source, const TensorIndex& index, CheckpointSink& sink,
                                 Control& control, std::uint64_t buffer_bytes,
                                 const ProgressCallback& progress) {
  TransferResult result;
  buffer_bytes = std::clamp<std::uint64_t>(buffer_bytes, 8, kMaxImportBuffer);
  or_abandon(sink, [&] {
    const TensorIndex target = target_of(index);
    together(control, [&] { sink.create(target); });
    TensorChecksums checksums(target);
    together(control, [&] {
      auto share = byte_share(index, control.rank(), control.ranks());
      const std::uint64_t total = share_bytes(index, share);
      auto buffer = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
      for (const SharePart& part : share) {
        const TensorMeta& t = index.tensors[part.tensor];
        const std::uint64_t element = dtype_size(t.dtype);
        for_each_piece(part.range, buffer_bytes / element, [&](FlatRange piece) {
          Stopwatch watch;
          read_piece(source, t, piece, buffer.get());
          result.make_s += watch.lap();
          checksums.add(part.tensor, piece, buffer.get());
          result.checksum_s += watch.lap();
          sink.write(part.tensor, piece, buffer.get());
          result.write_s += watch.lap();
          result.bytes += piece.size() * element;
          if (progress) progress(result.bytes, total);
        });
      }
    });
    result.crc64 = checksums.combine(control);
    together(control, [&] {
      source.check_unchanged();  // a changed source explains a wrong checksum, so it is said first
      result.tensors_checked = check_checksums(index, result.crc64);
    });
    Stopwatch watch;
    together(control, [&] { sink.commit(result.crc64); });
    result.commit_s = watch.seconds();
  });
  return result;
}

}  // namespace slabload
