#include "plan/baseline_planner.h"

#include <algorithm>

namespace slabload {
namespace {

// A tensor cut into pieces of at most `limit` bytes, in flat order, each given as boxes.
std::vector<FlatRange> pieces_of(std::uint64_t elements, std::uint64_t element_size, std::uint64_t row,
                                 std::uint64_t limit) {
  std::uint64_t step = std::max<std::uint64_t>(1, limit / element_size);
  if (step > row && row > 0) step = step / row * row;
  std::vector<FlatRange> out;
  for (std::uint64_t e = 0; e < elements; e += step) out.push_back({e, std::min(elements, e + step)});
  return out;
}

}  // namespace

BaselinePlanner::BaselinePlanner(const TensorIndex& index, const Layout& layout, const PlanParams& params)
    : index_(index), layout_(layout), params_(params) {
  resolved_ = layout_.resolve(index_);
  table_.emplace(index_, layout_.mesh(), resolved_);
  for (const TensorLayout& tensor : resolved_) masks_.push_back(replica_mask(layout_.mesh(), tensor));
  for (const TensorMeta& tensor : index_.tensors) dtypes_.push_back(final_dtype(tensor, params_.cast));
}

std::string BaselinePlanner::why() const {
  if (params_.strategy == "rank0-full") return "rank 0 reads the whole model, then broadcasts every tensor";
  if (params_.strategy == "rank0-broadcast") return "rank 0 reads each tensor and broadcasts it";
  return "every rank reads every tensor whole";
}

LoadPlan BaselinePlanner::plan(std::uint64_t rank) const {
  const bool full = params_.strategy == "rank0-full";
  const bool everyone = params_.strategy == "every-rank";
  const bool reader = everyone || rank == 0;
  LoadPlan plan;
  plan.rank = rank;
  plan.rounds_at_once = 1;
  plan.shards = place_shards(*table_, dtypes_, rank, &plan.shard_bytes);
  plan.groups.push_back(RankGroup::all(layout_.mesh().ranks()));
  add_replica_groups(layout_.mesh(), masks_, plan);
  plan.every_rank_reads = everyone;

  Round all_reads;  // rank0-full: everything is read before anything is sent
  for (std::uint32_t t = 0; t < index_.tensors.size(); ++t) {
    const TensorMeta& tensor = index_.tensors[t];
    DType dtype = final_dtype(tensor, params_.cast);
    plan.dtypes.push_back(dtype);
    if (tensor.bytes() == 0) continue;
    std::uint64_t size = dtype_size(dtype);
    std::uint64_t row = tensor.shape.ndim() == 0 ? 1 : tensor.shape.elements_from(1);
    Round round;
    round.communicates = !everyone && layout_.mesh().ranks() > 1;
    Round& reading = full ? all_reads : round;
    Place base{full && rank == 0 ? Space::keep : Space::stage, full && rank == 0 ? plan.keep_bytes : 0};
    // The limit holds for the stored and the final type, so that reads and messages are cut alike.
    std::uint64_t widest = std::max<std::uint64_t>(size, dtype_size(tensor.dtype));
    for (FlatRange piece : pieces_of(tensor.elements(), widest, row, params_.read_limit)) {
      auto step = static_cast<std::uint32_t>(reading.steps.size());
      std::uint32_t calls = 0;
      Place at{base.space, base.offset + piece.begin * size};
      std::uint64_t offset = at.offset;
      for (Box& box : flat_boxes(tensor.shape, piece)) {
        ++calls;
        std::uint64_t bytes = box.elements() * size;
        if (reader) reading.reads.push_back({t, step, std::move(box), {at.space, offset}});
        offset += bytes;
      }
      reading.steps.push_back({t, calls});
      if (!round.communicates) continue;
      FillItem fill;
      fill.kind = FillItem::Kind::broadcast;
      fill.tensor = t;
      fill.at = at;
      fill.bytes = piece.size() * size;
      fill.range = piece;
      round.fills.push_back(std::move(fill));
    }
    const ShardPlace& shard = plan.shards[t];
    for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box& frame, std::uint64_t before) {
      Place to{Space::shard, shard.offset + before * size};
      round.unpacks.push_back({t, box, base, whole_box(tensor.shape), to, frame});
    });
    if (base.space == Space::keep) {
      plan.keep_bytes += tensor.elements() * size;
    } else {
      round.stage_bytes = tensor.elements() * size;
    }
    plan.stage_bytes = std::max(plan.stage_bytes, round.stage_bytes);
    plan.rounds.push_back(std::move(round));
  }
  if (full) plan.rounds.insert(plan.rounds.begin(), std::move(all_reads));
  return plan;
}

}  // namespace slabload
