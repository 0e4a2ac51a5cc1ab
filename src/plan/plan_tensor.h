// What a planner knows of one tensor, and how it has decided to bring it in; the same on all ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/planner.h"

namespace slabload {

// Where ranks share out bytes they are cut at multiples of this, or at rows below it.
constexpr std::uint64_t kCutBytes = 16 << 10;
// What an owner reads of a relay's window, if no more is asked for.
constexpr std::uint64_t kStretchBytes = 8 << 20;

// How a tensor comes from the file to its owners. A cell is a shard with all its replicas, its owners.
enum class Way : std::uint8_t {
  none,      // nothing to bring
  direct,    // each owner reads an equal part of its cell to its final place; an all-gather brings the other parts
  relay,     // some owners read whole stretches of the cell to their final place, and broadcast them to the others
  exchange,  // all ranks read even, wide extents of the file, and send the pieces on to their owners
  spread,    // a few ranks read many small tensors in one request each and broadcast them; each rank takes its parts
  reread     // each owner reads its whole cell for itself: where the fabric is slower than the file system
};
std::string_view way_name(Way way);

struct PlanTensor {
  TensorLayout layout;
  DType dtype = DType::f32;  // final
  std::uint64_t source_size = 1, final_size = 1;  // bytes of an element
  std::uint64_t elements = 0;                     // of the tensor
  std::uint64_t row = 1;                          // elements of a row: of all dimensions but the first
  // Of the largest shard: its lengths and elements, and its runs in the flattened tensor.
  Dims lengths;
  std::uint64_t cell = 0;
  std::uint64_t runs = 1;
  std::uint64_t cells = 1;     // distinct shards that are not empty, at most
  std::uint64_t replicas = 1;  // owners of a cell
  std::uint32_t mask = 0;      // replicated mesh axes
  bool sharded = false;        // some axis shards it
  bool strided = false;        // a rank's pieces of a contiguous read do not lie contiguously
  bool in_place = false;       // ranges of every shard are few boxes, each dense in memory: it can be read in place
  bool fill = false;           // nothing in the file: every owner makes it
  std::uint32_t boxes = 1;     // the most boxes a range of a shard is read in
  std::uint64_t band = 0;      // filtered: elements of a row of chunks, which is decoded together; else 0

  Way way = Way::none;
  std::uint64_t grain = 1;  // unit of cuts, elements: of a cell's parts, or of the tensor (exchange, spread)
  std::uint64_t piece = 0;  // direct: elements of the cell that one round's items cover

  std::uint64_t widest() const { return source_size > final_size ? source_size : final_size; }
  // True if a cell has several owners but not all ranks: one of them, its head, gets what comes by exchange.
  bool headed() const { return sharded && replicas > 1; }
  std::uint64_t stored_bytes() const { return elements * source_size; }
};

// The facts of all tensors; `way` and what depends on it stays open.
std::vector<PlanTensor> plan_tensors(const TensorIndex& index, const Layout& layout, const PlanParams& params);

// The largest number of trailing-dimension elements (a whole row, a row of a row, ...) that is at most `limit`.
std::uint64_t row_grain(const Dims& lengths, std::uint64_t limit);

// The boxes that elements `range` of a shard lie in; in order where its blocks are stacked.
std::vector<Box> shard_boxes(const ShardPlace& shard, FlatRange range);

// The most boxes a range of a tensor of `ndim` dimensions has.
constexpr std::uint32_t most_boxes(std::size_t ndim) {
  return ndim <= 1 ? 1 : static_cast<std::uint32_t>(2 * ndim - 1);
}

}  // namespace slabload
