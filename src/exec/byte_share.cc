#include "exec/byte_share.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {

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
    // A cut inside an element goes to its front, on both of the ranks that it parts.
    auto element = [&](std::uint64_t cut) {
      return std::min(cut - std::min(cut, start), bytes) / dtype_size(t.dtype);
    };
    FlatRange range{element(from), element(to)};
    if (!range.empty()) share.push_back({i, range});
    start += bytes;
  }
  return share;
}

std::uint64_t share_bytes(const TensorIndex& index, const std::vector<SharePart>& share) {
  std::uint64_t sum = 0;
  for (const SharePart& part : share) sum += part.range.size() * dtype_size(index.tensors[part.tensor].dtype);
  return sum;
}

}  // namespace slabload
