// The even split of a checkpoint's bytes over the ranks, for jobs that touch every byte once: generate,
// import, verify.
#pragma once

#include <algorithm>
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
// ranks take every element once. Shares are even to an element; tensors of filtered chunks are cut between
// rows of chunks only, so that a chunk is decoded by one rank. Costs one step per tensor.
std::vector<SharePart> byte_share(const TensorIndex& index, int rank, int ranks);

// How many elements of a tensor to take at a time if that is to be at most `bytes`: whole rows and whole rows
// of filtered chunks where they fit, and at least one element.
std::uint64_t piece_elements(const TensorMeta& tensor, std::uint64_t bytes);

// Calls visit(piece) for consecutive pieces of a range, which end at multiples of `elements`.
template <typename Visit>
void for_each_piece(FlatRange range, std::uint64_t elements, Visit&& visit) {
  for (std::uint64_t begin = range.begin; begin < range.end;) {
    std::uint64_t end = std::min(range.end, (begin / elements + 1) * elements);
    visit(FlatRange{begin, end});
    begin = end;
  }
}

// The bytes of a share.
std::uint64_t share_bytes(const TensorIndex& index, const std::vector<SharePart>& share);

}  // namespace slabload
