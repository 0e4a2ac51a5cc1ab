#include "plan/byte_share.h"

#include "base/narrow.h"

namespace slabload {
namespace {

std::uint64_t row_of(const TensorMeta& tensor) {
  return tensor.shape.ndim() == 0 ? 1 : tensor.shape.elements_from(1);
}

// Elements that one rank takes together: a row of filtered chunks, or one element.
std::uint64_t grain_of(const TensorMeta& tensor) {
  return tensor.filtered() ? std::max<std::uint64_t>(1, tensor.chunk[0] * row_of(tensor)) : 1;
}

}  // namespace

std::vector<SharePart> byte_share(const TensorIndex& index, int rank, int ranks) {
  const std::uint64_t total = index.total_bytes();
  const auto me = narrow<std::uint64_t>(rank);
  const auto all = narrow<std::uint64_t>(ranks);
  const std::uint64_t from = scale(total, me, all);
  const std::uint64_t to = scale(total, me + 1, all);
  std::vector<SharePart> share;
  std::uint64_t start = 0;  // of the tensor, in the bytes of all
  for (std::size_t i = 0; i < index.tensors.size() && start < to; ++i) {
    const TensorMeta& t = index.tensors[i];
    const std::uint64_t bytes = t.bytes();
    const std::uint64_t grain = grain_of(t);
    // A cut inside a grain goes to its front, on both of the ranks that it parts.
    auto element = [&](std::uint64_t cut) {
      if (cut >= start + bytes) return t.elements();
      return (cut - std::min(cut, start)) / dtype_size(t.dtype) / grain * grain;
    };
    FlatRange range{element(from), element(to)};
    if (!range.empty()) share.push_back({i, range});
    start += bytes;
  }
  return share;
}

std::uint64_t piece_elements(const TensorMeta& tensor, std::uint64_t bytes) {
  std::uint64_t most = std::max<std::uint64_t>(1, bytes / dtype_size(tensor.dtype));
  for (std::uint64_t unit : {row_of(tensor), grain_of(tensor)}) {
    if (unit != 0 && most >= unit) most = most / unit * unit;
  }
  return most;
}

std::uint64_t share_bytes(const TensorIndex& index, const std::vector<SharePart>& share) {
  std::uint64_t sum = 0;
  for (const SharePart& part : share) sum += part.range.size() * dtype_size(index.tensors[part.tensor].dtype);
  return sum;
}

}  // namespace slabload
