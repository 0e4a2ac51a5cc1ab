#include "plan/plan_part.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {
namespace {

// One request lies within a multiple of this in memory, however many reads it serves.
constexpr std::uint64_t kRequestBytes = kItemLimit / 2;

// True if reading `item` goes on where `last` ended, in the file and in memory.
bool goes_on(const PlanContext& context, const LoadPlan& plan, const ReadItem& last, const ReadItem& item) {
  const TensorMeta& before = context.index.tensors[last.tensor];
  const TensorMeta& tensor = context.index.tensors[item.tensor];
  for (const TensorMeta* meta : {&before, &tensor}) {
    if (meta->storage != StorageKind::contiguous || meta->big_endian) return false;
  }
  if (before.file != tensor.file || plan.dtypes[last.tensor] != before.dtype ||
      plan.dtypes[item.tensor] != tensor.dtype || last.to.space != item.to.space) {
    return false;
  }
  auto begin_of = [](const TensorMeta& meta, const Box& box) -> std::optional<std::uint64_t> {
    auto position = run_position(box, whole_box(meta.shape));
    if (!position) return std::nullopt;
    return meta.offset + *position * dtype_size(meta.dtype);
  };
  const std::uint64_t bytes = last.box.elements() * dtype_size(before.dtype);
  auto from = begin_of(before, last.box);
  auto to = begin_of(tensor, item.box);
  const std::uint64_t end = item.to.offset + item.box.elements() * dtype_size(tensor.dtype);
  return from && to && *from + bytes == *to && last.to.offset + bytes == item.to.offset &&
         last.to.offset / kRequestBytes == (end - 1) / kRequestBytes;
}

}  // namespace

void append_read(const PlanContext& context, std::uint32_t tensor, std::uint32_t step, Box box, Place to,
                 const LoadPlan& plan, Round& round) {
  ReadItem item{tensor, step, std::move(box), to, false};
  item.joined = !round.reads.empty() && goes_on(context, plan, round.reads.back(), item);
  round.reads.push_back(std::move(item));
}

std::uint64_t readers_of(std::uint64_t window_bytes, std::uint64_t most, std::uint64_t min_read) {
  // What is less than a request is worth is still read by several, or the one that reads it would have more than the rest.
  if (window_bytes / most >= std::max<std::uint64_t>(1, min_read / 32)) return most;
  return std::clamp<std::uint64_t>(window_bytes / std::max<std::uint64_t>(1, min_read / 4), 1, most);
}

std::uint64_t group_index(const Mesh& mesh, std::uint32_t mask, std::uint64_t rank) {
  std::uint64_t index = 0;
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    const std::uint64_t size = mesh.axis(axis).size;
    if (!((mask >> axis) & 1)) index = index * size + rank / mesh.stride(axis) % size;
  }
  return index;
}

std::uint32_t world_group(const PlanContext& context, LoadPlan& plan) {
  const RankGroup world = RankGroup::all(context.ranks);
  auto found = std::find(plan.groups.begin(), plan.groups.end(), world);
  if (found == plan.groups.end()) found = plan.groups.insert(plan.groups.end(), world);
  return narrow<std::uint32_t>(found - plan.groups.begin());
}

ReaderOrder::ReaderOrder(const RankGroup& group, const NodeMap& nodes) : size_(group.size()) {
  const std::uint64_t node = nodes.node(group.first);
  std::uint64_t together = 1;
  while (together < size_ && nodes.node(group[together]) == node) ++together;
  if (together < size_) together_ = together;
}

std::uint64_t ReaderOrder::member(std::uint64_t i) const {
  if (i >= size_) i %= size_;
  if (together_ == 1) return i;
  std::uint64_t nodes = ceil_div(size_, together_);
  const std::uint64_t last = size_ - (nodes - 1) * together_;
  std::uint64_t begin = 0;
  if (i >= last * nodes) {  // the last node's members have all had their turn
    i -= last * nodes;
    --nodes;
    begin = last;
  }
  return i % nodes * together_ + begin + i / nodes;
}

}  // namespace slabload
