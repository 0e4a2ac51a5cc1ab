#include "access.h"

#include "memory.h"
#include "pinned.h"
#include "violation.h"

namespace fakecuda {
namespace {

bool empty(const Region& region) {
  return region.rows == 0 || region.width == 0;
}

void check_written(const Blocks& blocks, const Block& block, const Region& region, const Label& label) {
  for (std::uint64_t i = 0; i < region.rows; ++i) {
    const std::uint64_t end = region.row(i) + region.width;
    const std::uint64_t missing = block.written.first_missing(region.row(i), end);
    if (missing < end)
      violation("uninitialised: %s reads %s of %s, but nothing has written byte %zu", label.text().c_str(),
                region.text_from(block.begin).c_str(), blocks.name(block).c_str(),
                std::size_t{missing - block.begin});
  }
}

}  // namespace

void admit(const std::vector<Access>& accesses, const std::shared_ptr<const Label>& label,
           const Clock& clock) {
  struct Found {
    Access access;
    Block* block;
    bool device;
  };
  std::vector<Found> found;
  for (Access access : accesses) {
    if (empty(access.region)) continue;
    access.region = access.region.merged();
    const std::uint64_t begin = access.region.begin;
    const bool device = device_memory().holds(begin);
    if (!device && !pinned_memory().holds(begin))
      violation("%s uses 0x%llx, which is neither device nor pinned memory", label->text().c_str(),
                static_cast<unsigned long long>(begin));
    Blocks& blocks = device ? device_memory().blocks() : pinned_memory().blocks();
    Block& block = blocks.holding(access.region, *label);
    block.history.check(access, *label, clock, blocks.name(block), block.begin);
    if (device && !access.writes) check_written(blocks, block, access.region, *label);
    found.push_back({access, &block, device});
  }
  for (const auto& [access, block, device] : found) {
    block->history.add(access, label);
    if (!device) pinned_memory().begin_flight(access.region, access.writes, label);
    if (!device || !access.writes) continue;
    for (std::uint64_t i = 0; i < access.region.rows; ++i)
      block->written.add(access.region.row(i), access.region.row(i) + access.region.width);
  }
}

}  // namespace fakecuda
