// Finds the blocks of a shard that meet a box, however many blocks there are.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "layout/runs.h"
#include "layout/shard.h"

namespace slabload {

class BlockIndex {
 public:
  static constexpr std::size_t kFew = 16;  // blocks that are looked at one by one

  // Keeps references to the box and the blocks.
  explicit BlockIndex(const Shard& shard);

  // Calls visit(box, frame, offset), as for_each_block() does, for the blocks that meet a box that is not empty, in order.
  template <typename Visit>
  void for_each(const Box& within, Visit&& visit) const {
    if (grid_.empty()) {
      for_each_block(box_, blocks_, [&](const Box& box, const Box& frame, std::uint64_t offset) {
        if (!intersect(box, within).empty()) visit(box, frame, offset);
      });
      return;
    }
    descend(within, 0, 0, visit);
  }

  // How many of the shard's elements lie before element `flat` of the flattened tensor.
  std::uint64_t elements_before(const Shape& shape, std::uint64_t flat) const;

 private:
  struct GridRun : Run {
    std::uint64_t before;  // indices in the dimension's earlier runs
  };

  template <typename Visit>
  void descend(const Box& within, std::size_t d, std::size_t number, Visit& visit) const {
    if (d == grid_.size()) {
      const ShardBlock& block = blocks_[number];
      visit(block.box, block.frame, block.offset);
      return;
    }
    const std::vector<GridRun>& runs = grid_[d];
    auto run = std::partition_point(runs.begin(), runs.end(),
                                    [&](const GridRun& r) { return r.start + r.extent <= within.start[d]; });
    for (; run != runs.end() && run->start < within.start[d] + within.extent[d]; ++run)
      descend(within, d + 1, number * runs.size() + static_cast<std::size_t>(run - runs.begin()), visit);
  }

  const Box& box_;
  const std::vector<ShardBlock>& blocks_;
  std::vector<std::vector<GridRun>> grid_;  // the runs of each dimension, all of which are combined; empty: the blocks are few
};

// Those of one rank's tensors, each made once: making one takes time in proportion to its blocks, and every round asks.
class BlockIndexes {
 public:
  // Valid until the next call. The shard stays where it is.
  const BlockIndex& of(std::uint32_t tensor, const Shard& shard) {
    if (shard.blocks.size() <= BlockIndex::kFew) return few_.emplace(shard);
    return many_.try_emplace(tensor, shard).first->second;
  }

 private:
  std::optional<BlockIndex> few_;
  std::unordered_map<std::uint32_t, BlockIndex> many_;
};

}  // namespace slabload
