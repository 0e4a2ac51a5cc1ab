// The even split of a checkpoint's bytes over the ranks, for jobs that touch every byte once.
#pragma once

#include <cstdint>
#include <vector>

#include "index/tensor_index.h"
#include "tensor/box.h"

namespace slabload {

struct SharePart {
  std::size_t tensor;  // number in TensorIndex::tensors
  FlatRange range;     // its elements, never none
};

// The part of rank `rank` of `ranks` of all tensors laid end to end in the index's order. The shares of all
// ranks take every element once; two shares differ by at most one element's bytes on either side. Costs one
// step per tensor.
std::vector<SharePart> byte_share(const TensorIndex& index, int rank, int ranks);

// Calls visit(piece) for consecutive pieces of a range of at most `elements` elements each.
template <typename Visit>
void for_each_piece(FlatRange range, std::uint64_t elements, Visit&& visit) {
  for (std::uint64_t begin = range.begin; begin < range.end;) {
    std::uint64_t size = range.end - begin < elements ? range.end - begin : elements;
    visit(FlatRange{begin, begin + size});
    begin += size;
  }
}

// The bytes of a share.
std::uint64_t share_bytes(const TensorIndex& index, const std::vector<SharePart>& share);

}  // namespace slabload
