// The elements of a tensor that a rank holds, and how they lie in its memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "layout/layout.h"
#include "tensor/box.h"

namespace slabload {

// A dense part of a shard.
struct ShardBlock {
  Box box;  // in the tensor's coordinates; never empty
  // The dense row-major buffer that it lies in, in the same coordinates; its start counts modulo 2^64, since
  // it may lie before the tensor's.
  Box frame;
  std::uint64_t offset = 0;  // elements of the shard before the frame

  bool operator==(const ShardBlock& other) const {
    return box == other.box && frame == other.frame && offset == other.offset;
  }
};

struct Shard {
  // The shard in the tensor's coordinates if `blocks` is empty; else what it looks like in memory: it starts
  // at 0 and has the shard's own lengths. An empty shard's offset is the dimension's full length.
  Box box;
  std::vector<ShardBlock> blocks;  // in the order of their elements
  bool flat = false;               // in memory it is one-dimensional

  // The lengths of the tensor that the rank holds.
  Dims lengths() const { return flat ? Dims{box.elements()} : box.extent; }
  bool empty() const { return box.empty(); }
  // True if its elements lie block after block in memory.
  bool stacked() const { return blocks.empty() || blocks.back().offset != 0 || blocks.size() == 1; }
};

// The shard of the rank at `coordinate`.
Shard local_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Dims& coordinate);

// The same box if all of the layout's cuts leave one (no strided, no flat placement).
Box local_box(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Dims& coordinate);

// Elements of the largest shard.
std::uint64_t largest_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout);

// Calls visit(box, frame, offset) for every block of a shard in order; a plain one is its own box and frame.
template <typename Visit>
void for_each_block(const Box& box, const std::vector<ShardBlock>& blocks, Visit&& visit) {
  if (!blocks.empty()) {
    for (const ShardBlock& block : blocks) visit(block.box, block.frame, block.offset);
  } else if (!box.empty()) {
    visit(box, box, std::uint64_t{0});
  }
}

// Calls visit(box, element) for parts of a shard that are dense in its memory, from that element of it on: its blocks,
// or rows of those that lie between the rows of others.
template <typename Visit>
void for_each_dense_part(const Box& box, const std::vector<ShardBlock>& blocks, Visit&& visit) {
  auto descend = [&](auto& self, const Box& part, const Box& frame, std::uint64_t before) -> void {
    if (auto position = run_position(part, frame)) {
      visit(part, before + *position);
      return;
    }
    std::size_t d = 0;
    while (part.extent[d] == 1) ++d;
    Box row = part;
    row.extent[d] = 1;
    for (std::uint64_t i = 0; i < part.extent[d]; ++i, ++row.start[d]) self(self, row, frame, before);
  };
  for_each_block(box, blocks, [&](const Box& block, const Box& frame, std::uint64_t before) {
    descend(descend, block, frame, before);
  });
}

// Ranks with the same coordinate on every sharded axis hold the same shard: replicas of each other. The mask
// has bit i set where axis i replicates and has more than one rank.
std::uint32_t replica_mask(const Mesh& mesh, const TensorLayout& layout);

// Calls visit(coordinate-of-a-representative, box) for what every block of every distinct shard has of
// `within`, if that is not empty; replicas are visited once, with coordinate 0 on the replicated axes; the blocks of one
// shard come in its order. Costs what it visits, not the number of ranks nor of blocks.
void for_each_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Box& within,
                    const std::function<void(const Dims&, const Box&)>& visit);

}  // namespace slabload
