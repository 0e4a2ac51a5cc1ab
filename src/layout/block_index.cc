#include "layout/block_index.h"

namespace slabload {

BlockIndex::BlockIndex(const Shard& shard) : box_(shard.box), blocks_(shard.blocks) {
  if (blocks_.size() <= kFew || shard.flat) return;
  // The last dimension's runs change from block to block, those of the one before it with every full turn of them, ...
  std::vector<std::vector<GridRun>> grid(blocks_.front().box.ndim());
  std::size_t step = 1;
  for (std::size_t d = grid.size(); d-- > 0;) {
    std::size_t at = 0;
    std::uint64_t before = 0;
    do {
      const Box& box = blocks_[at].box;
      grid[d].push_back({{box.start[d], box.extent[d]}, before});
      before += box.extent[d];
      at += step;
    } while (at < blocks_.size() && blocks_[at].box.start[d] > grid[d].back().start);
    step *= grid[d].size();
  }
  if (step == blocks_.size()) grid_ = std::move(grid);
}

std::uint64_t BlockIndex::elements_before(const Shape& shape, std::uint64_t flat) const {
  std::uint64_t count = 0;
  if (grid_.empty() || flat >= shape.elements()) {
    for_each_block(box_, blocks_, [&](const Box& box, const Box&, std::uint64_t) {
      count += slabload::elements_before(shape, box, flat);
    });
    return count;
  }
  std::uint64_t rest = shape.elements();  // of the shape below the dimensions that have been looked at
  std::uint64_t inner = 1;                // of the shard
  for (const std::vector<GridRun>& runs : grid_) inner *= runs.back().before + runs.back().extent;
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    const std::vector<GridRun>& runs = grid_[d];
    rest /= shape[d];
    inner /= runs.back().before + runs.back().extent;
    const std::uint64_t at = flat / rest;
    flat %= rest;
    const auto next = std::partition_point(runs.begin(), runs.end(), [&](const GridRun& r) { return r.start <= at; });
    if (next == runs.begin()) return count;
    const GridRun& run = *std::prev(next);  // the last that begins at `at` or before it
    count += (run.before + std::min(at - run.start, run.extent)) * inner;
    if (at - run.start >= run.extent) return count;
  }
  return count;
}

}  // namespace slabload
