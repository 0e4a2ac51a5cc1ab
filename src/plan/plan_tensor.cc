#include "plan/plan_tensor.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/narrow.h"

namespace slabload {
namespace {

// A strided shard that is read in place is few runs.
constexpr std::uint64_t kMostBlocks = 4;

// True if ranges of every shard are at most kMostBlocks dense stretches. Asks every rank's shard of a strided tensor.
bool few_blocks(const Shape& shape, const Mesh& mesh, const TensorLayout& layout) {
  std::uint64_t shards = 1;
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if (layout.dims[axis] == -1) continue;
    // Other dimensions than the first would interleave.
    if (layout.dims[axis] != 0) return false;
    shards *= mesh.axis(axis).size;
  }
  constexpr std::uint64_t kMostShards = 4096;
  if (shards > kMostShards) return false;
  for (std::uint64_t i = 0; i < shards; ++i) {
    Dims at(mesh.ndim(), 0);
    std::uint64_t rest = i;
    for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
      if (layout.dims[axis] == -1) continue;
      at[axis] = rest % mesh.axis(axis).size;
      rest /= mesh.axis(axis).size;
    }
    if (local_shard(Shape{shape[0]}, mesh, layout, at).blocks.size() > kMostBlocks) return false;
  }
  return true;
}

}  // namespace

std::string_view way_name(Way way) {
  switch (way) {
    case Way::none:
      return "nothing";
    case Way::direct:
      return "direct";
    case Way::relay:
      return "relay";
    case Way::exchange:
      return "exchange";
    case Way::spread:
      return "spread";
    case Way::reread:
      return "reread";
  }
  return "?";
}

namespace {

// few_blocks() for each kind of tensor that was asked for.
class FewBlocks {
 public:
  bool of(const Shape& shape, const Mesh& mesh, const TensorLayout& layout) {
    if (layout.factors.empty()) return true;
    auto [entry, fresh] = known_.try_emplace({shape[0], layout.dims, layout.factors, layout.order}, false);
    if (fresh) entry->second = few_blocks(shape, mesh, layout);
    return entry->second;
  }

 private:
  std::map<std::tuple<std::uint64_t, std::vector<int>, std::vector<std::uint64_t>, std::vector<std::uint8_t>>, bool>
      known_;
};

PlanTensor plan_tensor(const TensorMeta& tensor, TensorLayout resolved, const Mesh& mesh, const PlanParams& params,
                       FewBlocks& few) {
  PlanTensor t;
  t.layout = std::move(resolved);
  const TensorLayout& layout = t.layout;
  t.dtype = final_dtype(tensor, params.cast);
  t.source_size = dtype_size(tensor.dtype);
  t.final_size = dtype_size(t.dtype);
  t.elements = tensor.elements();
  t.row = tensor.shape.ndim() == 0 ? 1 : tensor.shape.elements_from(1);
  t.cell = largest_shard(tensor.shape, mesh, layout);
  t.fill = tensor.storage == StorageKind::fill;
  t.mask = replica_mask(mesh, layout);
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    const std::uint64_t size = mesh.axis(axis).size;
    if ((t.mask >> axis) & 1) t.replicas *= size;
    if (layout.dims[axis] == -1 || size == 1) continue;
    t.sharded = true;
    t.cells = t.cells > t.elements / size ? std::max<std::uint64_t>(t.elements, 1) : t.cells * size;
  }
  if (t.cell == 0) return t;
  const std::size_t ndim = tensor.shape.ndim();
  if (layout.flat()) {
    t.lengths = Dims{t.cell};
    t.in_place = true;
    t.boxes = most_boxes(ndim);
  } else {
    Shard first = local_shard(tensor.shape, mesh, layout, Dims(mesh.ndim(), 0));
    t.lengths = first.box.extent;
    t.runs = 0;
    for_each_block(first.box, first.blocks, [&](const Box& box, const Box&, std::uint64_t) {
      const std::uint64_t runs = runs_of(tensor.shape, box).count;
      t.runs += runs;
      t.strided = t.strided || runs > 1;
    });
    // A shard of another rank may be strided where the first is not only if an inner dimension is cut.
    t.in_place = few.of(tensor.shape, mesh, layout);
    t.strided = t.strided || !t.in_place;
    t.boxes = most_boxes(ndim) * (layout.factors.empty() ? 1 : narrow<std::uint32_t>(kMostBlocks));
  }
  if (tensor.filtered()) t.band = std::max<std::uint64_t>(1, scale(tensor.chunk[0], t.row, 1));
  return t;
}

}  // namespace

std::vector<PlanTensor> plan_tensors(const TensorIndex& index, const Layout& layout, const PlanParams& params) {
  std::vector<PlanTensor> out;
  out.reserve(index.tensors.size());
  std::vector<TensorLayout> resolved = layout.resolve(index);
  FewBlocks few;
  for (std::size_t t = 0; t < resolved.size(); ++t)
    out.push_back(plan_tensor(index.tensors[t], std::move(resolved[t]), layout.mesh(), params, few));
  return out;
}

std::uint64_t row_grain(const Dims& lengths, std::uint64_t limit) {
  std::uint64_t grain = 1;
  for (std::size_t d = lengths.size(); d-- > 1;) {
    if (lengths[d] == 0 || grain > limit / lengths[d]) break;
    grain *= lengths[d];
  }
  return grain;
}

std::vector<Box> shard_boxes(const ShardPlace& shard, FlatRange range) {
  if (shard.blocks.empty()) return flat_boxes_in(shard.box, range);
  std::vector<Box> out;
  if (!shard.stacked()) {  // the range as boxes in memory, each cut into what it has of the blocks
    for (const Box& part : flat_boxes(Shape(shard.box.extent), range)) {
      for (const ShardBlock& block : shard.blocks) {
        Box met = block.box;
        for (std::size_t d = 0; d < met.ndim(); ++d) met.start[d] -= block.frame.start[d];
        met = intersect(met, part);
        if (met.empty()) continue;
        for (std::size_t d = 0; d < met.ndim(); ++d) met.start[d] += block.frame.start[d];
        out.push_back(std::move(met));
      }
    }
    return out;
  }
  for (const ShardBlock& block : shard.blocks) {
    const std::uint64_t end = block.offset + block.box.elements();
    FlatRange part{std::clamp(range.begin, block.offset, end) - block.offset,
                   std::clamp(range.end, block.offset, end) - block.offset};
    if (part.empty()) continue;
    for (Box& box : flat_boxes_in(block.box, part)) out.push_back(std::move(box));
  }
  return out;
}

}  // namespace slabload
