// One way of bringing tensors in, cut into rounds. A planner puts several side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/block_index.h"
#include "layout/node_map.h"
#include "plan/plan_tensor.h"
#include "plan/staging.h"

namespace slabload {

// What all parts of a planner see; it outlives them.
struct PlanContext {
  const TensorIndex& index;
  const Layout& layout;
  const PlanParams& params;
  const StagingSplit& split;
  const std::vector<PlanTensor>& tensors;
  std::uint64_t ranks;
};

class PlanPart {
 public:
  virtual ~PlanPart() = default;

  // Takes a tensor in, in the order of the index; after the last one, close().
  virtual void add(std::uint32_t tensor) = 0;
  virtual void close() = 0;

  virtual std::size_t rounds() const = 0;
  // The reads of a round that all ranks list (see ReadStep), appended.
  virtual void append_steps(std::size_t round, std::vector<ReadStep>& steps) const = 0;
  // True if some rank has transfers in the round.
  virtual bool communicates(std::size_t round) const = 0;
  // The most transfers that append() adds for a rank, as far as it can be told: room is made for all parts at once.
  virtual std::size_t fills(std::size_t) const { return 0; }
  // What one rank does in a round, appended; the round's steps of this part begin at `first_step`. `blocks` is the plan's.
  virtual void append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& blocks, Round& out) const = 0;
};

// Adds a read; one that goes on where the last one ended, in the file and in memory, becomes part of its request, as long
// as that is no item above the limit.
void append_read(const PlanContext& context, std::uint32_t tensor, std::uint32_t step, Box box, Place to,
                 const LoadPlan& plan, Round& round);

// How many of `most` ranks read a window: all of them, unless their extents were far below what is worth a request.
std::uint64_t readers_of(std::uint64_t window_bytes, std::uint64_t most, std::uint64_t min_read);

// Numbers the groups of ranks that differ along the axes in `mask` only; `rank` is any member.
std::uint64_t group_index(const Mesh& mesh, std::uint32_t mask, std::uint64_t rank);

// The number in plan.groups of the group of all ranks; added if it is not there yet.
std::uint32_t world_group(const PlanContext& context, LoadPlan& plan);

// Members of a group in an order in which neighbours are on different nodes, so that the first k of them, whatever k,
// are spread over the nodes' links.
class ReaderOrder {
 public:
  ReaderOrder(const RankGroup& group, const NodeMap& nodes);
  // The number in the group of the `i`-th reader; counts on from the start after the last.
  std::uint64_t member(std::uint64_t i) const;

 private:
  std::uint64_t size_;
  std::uint64_t together_ = 1;  // neighbouring members on one node; the last node may have fewer
};

}  // namespace slabload
