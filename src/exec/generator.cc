#include "exec/generator.h"

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "base/stopwatch.h"
#include "exec/byte_share.h"
#include "exec/tensor_checksums.h"
#include "tensor/synthetic.h"

namespace slabload {
namespace {

constexpr std::uint64_t kBufferBytes = 4 * kMiB;

// The part of a path after its last slash.
std::string file_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

TransferResult generate(CheckpointSink& sink, Control& control, const TensorIndex& table, std::uint64_t seed,
                        const ProgressCallback& progress) {
  TransferResult result;
  TensorIndex index = table;
  index.metadata["slabload_seed"] = std::to_string(seed);
  index.metadata["slabload_table"] = file_name(table.path);
  index.metadata["slabload_generator"] = std::string(kGeneratorVersion);

  or_abandon(sink, [&] {
    together(control, [&] { sink.create(index); });
    TensorChecksums checksums(index);
    together(control, [&] {
      auto share = byte_share(index, control.rank(), control.ranks());
      const std::uint64_t total = share_bytes(index, share);
      auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
      for (const SharePart& part : share) {
        const TensorMeta& t = index.tensors[part.tensor];
        const std::uint64_t element = dtype_size(t.dtype);
        SyntheticTensor values(seed, t.name, t.dtype);
        for_each_piece(part.range, kBufferBytes / element, [&](FlatRange piece) {
          Stopwatch watch;
          values.fill(piece.begin, piece.size(), buffer.get());
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
    Stopwatch watch;
    together(control, [&] { sink.commit(result.crc64); });
    result.commit_s = watch.seconds();
  });
  return result;
}

}  // namespace slabload
