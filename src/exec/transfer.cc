#include "exec/transfer.h"

#include <memory>

#include "base/bytes.h"
#include "base/stop_signal.h"
#include "base/stopwatch.h"
#include "exec/tensor_checksums.h"
#include "plan/byte_share.h"

namespace slabload {
namespace {

void write_share(const TransferJob& job, CheckpointSink& sink, Control& control, Monitor* monitor,
                 TensorChecksums& checksums, TransferResult& result) {
  auto share = byte_share(job.source, control.rank(), control.ranks());
  const std::uint64_t total = share_bytes(job.source, share);
  auto buffer = std::make_unique_for_overwrite<std::byte[]>(job.buffer_bytes);
  for (const SharePart& part : share) {
    const TensorMeta& tensor = job.source.tensors[part.tensor];
    for_each_piece(part.range, piece_elements(tensor, job.buffer_bytes), [&](FlatRange piece) {
      if (monitor != nullptr) monitor->at("write", &tensor.name);
      check_stop(fmt::format("{} of {} were written on this rank, and nothing is left of them", format_bytes(result.bytes),
                             format_bytes(total)));
      Stopwatch watch;
      job.make(part.tensor, piece, buffer.get());
      result.make_s += watch.lap();
      checksums.add(part.tensor, piece, buffer.get());
      result.checksum_s += watch.lap();
      sink.write(part.tensor, piece, buffer.get());
      result.write_s += watch.lap();
      result.bytes += piece.size() * dtype_size(tensor.dtype);
      if (monitor != nullptr) monitor->moved(result.bytes, total);
    });
  }
}

}  // namespace

TransferResult transfer(const TransferJob& job, CheckpointSink& sink, Control& control, Monitor* monitor) {
  auto at = [&](const char* phase) {
    if (monitor != nullptr) monitor->at(phase, nullptr);
  };
  TransferResult result;
  try {
    at("create");
    together(control, [&] { sink.create(job.target); });
    TensorChecksums checksums(job.target);
    together(control, [&] { write_share(job, sink, control, monitor, checksums, result); });
    at("checksums");
    result.crc64 = checksums.combine(control);
    if (job.check) together(control, [&] { job.check(result); });
    at("commit");
    Stopwatch watch;
    together(control, [&] { sink.commit(result.crc64); });
    result.commit_s = watch.seconds();
  } catch (...) {
    sink.abandon();
    throw;
  }
  return result;
}

}  // namespace slabload
