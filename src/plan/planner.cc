#include "plan/planner.h"

#include <algorithm>

#include "base/error.h"
#include "base/narrow.h"
#include "plan/baseline_planner.h"
#include "plan/byte_share.h"
#include "plan/mixed_planner.h"
#include "tensor/cast.h"

namespace slabload {

DType final_dtype(const TensorMeta& tensor, const std::optional<DType>& cast) {
  return cast && can_cast(tensor.dtype, *cast) ? *cast : tensor.dtype;
}

bool is_converted(const TensorMeta& tensor, const std::optional<DType>& cast) {
  return final_dtype(tensor, cast) != tensor.dtype;
}

bool is_baseline(const std::string& strategy) {
  return strategy == "rank0-broadcast" || strategy == "rank0-full" || strategy == "every-rank";
}

std::unique_ptr<Planner> Planner::make(const TensorIndex& index, const Layout& layout,
                                       const PlanParams& params) {
  if (is_baseline(params.strategy)) return std::make_unique<BaselinePlanner>(index, layout, params);
  if (params.strategy == "slab" || params.strategy == "linear" || params.strategy == "auto")
    return std::make_unique<MixedPlanner>(index, layout, params);
  fail(Status::usage, "--strategy: '{}' is not slab, linear, auto, rank0-broadcast, rank0-full or every-rank",
       printable(params.strategy));
}

std::vector<ShardPlace> place_shards(const ShardTable& table, const std::vector<DType>& dtypes, std::uint64_t rank,
                                     std::uint64_t* total) {
  const std::vector<Shard> of_kind = table.shards(rank);
  std::vector<std::uint64_t> elements;
  for (const Shard& shard : of_kind) elements.push_back(shard.box.elements());
  std::vector<ShardPlace> shards(dtypes.size());
  std::uint64_t offset = 0;
  for (std::size_t t = 0; t < shards.size(); ++t) {
    const std::size_t kind = table.kind(t);
    ShardPlace& shard = shards[t];
    static_cast<Shard&>(shard) = of_kind[kind];
    shard.bytes = elements[kind] * dtype_size(dtypes[t]);
    shard.offset = offset;
    if (!checked_add(offset, align_up(shard.bytes, kShardAlignment), &offset)) {
      fail(Status::usage, "the shards of rank {} are beyond 2^64 bytes", rank);
    }
  }
  *total = offset;
  return shards;
}

void add_replica_groups(const Mesh& mesh, const std::vector<std::uint32_t>& masks, LoadPlan& plan) {
  std::vector<std::pair<std::uint32_t, std::int32_t>> known;
  for (std::uint32_t mask : masks) {
    if (mask == 0) {
      plan.replicas.push_back(-1);
      continue;
    }
    auto found =
        std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.first == mask; });
    if (found == known.end()) {
      known.emplace_back(mask, narrow<std::int32_t>(plan.groups.size()));
      plan.groups.push_back(RankGroup::along(mesh, mask, plan.rank));
      found = std::prev(known.end());
    }
    plan.replicas.push_back(found->second);
  }
}

LoadPlan plan_scan(const TensorIndex& index, std::uint64_t ranks, std::uint64_t rank, std::uint64_t piece) {
  LoadPlan plan;
  plan.rank = rank;
  plan.in_step = false;
  plan.shards.resize(index.tensors.size());
  for (const TensorMeta& tensor : index.tensors) plan.dtypes.push_back(tensor.dtype);
  for (const SharePart& part : byte_share(index, narrow<int>(rank), narrow<int>(ranks))) {
    const TensorMeta& tensor = index.tensors[part.tensor];
    auto t = narrow<std::uint32_t>(part.tensor);
    for_each_piece(part.range, piece_elements(tensor, piece), [&](FlatRange range) {
      Round round;
      round.steps.push_back({t, 0});
      for (Box& box : flat_boxes(tensor.shape, range)) {
        std::uint64_t bytes = box.elements() * dtype_size(tensor.dtype);
        round.reads.push_back({t, 0, std::move(box), {Space::stage, round.stage_bytes}});
        round.stage_bytes += bytes;
      }
      plan.stage_bytes = std::max(plan.stage_bytes, round.stage_bytes);
      plan.rounds.push_back(std::move(round));
    });
  }
  return plan;
}

}  // namespace slabload
