// From an index and a layout to every rank's LoadPlan. Pure: no I/O, no communication; every rank makes its
// own part from the same inputs, and all parts fit together.
#pragma once

#include <memory>
#include <string>

#include "layout/node_map.h"
#include "plan/costs.h"
#include "plan/load_plan.h"
#include "plan/shard_table.h"

namespace slabload {

struct PlanParams {
  std::string strategy = "slab";  // slab, linear, auto, rank0-broadcast, rank0-full, every-rank
  std::uint64_t staging =
      256 << 20;                 // the whole staging budget of one rank, bytes (plan/staging.h divides it)
  bool pinned = false;           // reads pass through pinned slots on their way to a device
  std::uint64_t slots = 0;       // pinned slots, or on the host rounds under way; 0: the default
  std::uint64_t slot_bytes = 0;  // of one slot; 0: by the budget
  std::uint64_t min_read = 1 << 20;           // a smaller read is not worth a request
  std::uint64_t round_bytes = 64 << 20;       // what one rank reads in a round, at most
  std::uint64_t read_limit = kItemLimit - 1;  // the largest read of a baseline, bytes
  std::optional<DType> cast;                  // applied to floating tensors only
  std::uint64_t align = 1 << 20;  // wide extents are cut at multiples of it in the file; 0: anywhere
  Costs costs;                    // what `auto` weighs
  NodeMap nodes;                  // readers are spread over them
  // The plan is for turning round (plan/save_plan.h): what a rank reads goes to one owner of each cell, not to all.
  bool saving = false;
};

// True if the tensor's stored type differs from the final one.
bool is_converted(const TensorMeta& tensor, const std::optional<DType>& cast);
DType final_dtype(const TensorMeta& tensor, const std::optional<DType>& cast);

class Planner {
 public:
  // Decides what is the same for all ranks: which tensors are read how, and the rounds. Costs tensors +
  // pieces. Keeps references: index and layout outlive it. Throws Status::usage if no plan fits the staging
  // budget; the message has the smallest budget that does.
  static std::unique_ptr<Planner> make(const TensorIndex& index, const Layout& layout,
                                       const PlanParams& params);
  virtual ~Planner() = default;

  // The part of one rank.
  virtual LoadPlan plan(std::uint64_t rank) const = 0;

  // One line: what it does, for the report.
  virtual std::string why() const = 0;
};

// A baseline reproduces a way of loading that this program exists to replace; it is exempt from the staging
// budget.
bool is_baseline(const std::string& strategy);

// Every rank reads an even share of all bytes into staging and keeps nothing: what `verify` runs.
// `piece` is the largest read, bytes.
LoadPlan plan_scan(const TensorIndex& index, std::uint64_t ranks, std::uint64_t rank, std::uint64_t piece);

// The shards of one rank, laid out in its shard space; `dtypes` are the final ones.
std::vector<ShardPlace> place_shards(const ShardTable& table, const std::vector<DType>& dtypes, std::uint64_t rank,
                                     std::uint64_t* total);

// Appends this rank's groups of replicas to plan.groups and names each tensor's in plan.replicas. `masks` are the
// tensors' replicated axes, see replica_mask().
void add_replica_groups(const Mesh& mesh, const std::vector<std::uint32_t>& masks, LoadPlan& plan);

}  // namespace slabload
