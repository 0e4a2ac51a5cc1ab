#include "layout/block_index.h"

namespace slabload {

BlockIndex::BlockIndex(const Shard& shard) : box_(shard.box), blocks_(shard.blocks) {
  if (blocks_.size() <= kFew || shard.flat) return;
  // The last dimension's runs change from block to block, those of the one before it with every full turn of them, ...
  std::vector<std::vector<Run>> grid(blocks_.front().box.ndim());
  std::size_t step = 1;
  for (std::size_t d = grid.size(); d-- > 0;) {
    std::size_t at = 0;
    do {
      const Box& box = blocks_[at].box;
      grid[d].push_back({box.start[d], box.extent[d]});
      at += step;
    } while (at < blocks_.size() && blocks_[at].box.start[d] > grid[d].back().start);
    step *= grid[d].size();
  }
  if (step == blocks_.size()) grid_ = std::move(grid);
}

}  // namespace slabload
