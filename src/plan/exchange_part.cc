#include "plan/exchange_part.h"

#include <algorithm>

#include "base/narrow.h"
#include "layout/block_index.h"

namespace slabload {
namespace {

// Of a cell's owners, the one that gives a writer its piece: the writer itself, or else the nearest, which
// is likely on its node.
std::uint64_t giver_of(const RankGroup& owners, std::uint64_t writer) {
  std::uint64_t low = 0;
  std::uint64_t high = owners.size() - 1;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (owners[middle] < writer) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  auto distance = [&](std::uint64_t i) { return owners[i] < writer ? writer - owners[i] : owners[i] - writer; };
  return owners[low > 0 && distance(low - 1) <= distance(low) ? low - 1 : low];
}

FillItem broadcast_of(std::uint32_t tensor, std::uint64_t size, FlatRange range, const LoadPlan& plan) {
  FillItem fill;
  fill.kind = FillItem::Kind::broadcast;
  fill.tensor = tensor;
  fill.group = narrow<std::uint32_t>(plan.replicas[tensor]);
  fill.at = {Space::shard, plan.shards[tensor].offset + range.begin * size};
  fill.bytes = range.size() * size;
  fill.range = range;
  return fill;
}

}  // namespace

bool ExchangePart::communicates(std::size_t round) const {
  return context_.ranks > 1 && (round < windows_.size() || shared_in(round) != nullptr);
}

std::size_t ExchangePart::fills(std::size_t round) const {
  std::size_t count = 0;
  if (const Window* shared = shared_in(round)) count += shared->headed;
  if (round >= windows_.size() || context_.ranks == 1) return count;
  const Window& window = windows_[round];
  std::uint64_t whole = 0;  // bytes that all ranks own
  for (const Segment& segment : window.segments) {
    const PlanTensor& tensor = context_.tensors[segment.tensor];
    if (!tensor.sharded) whole += segment.range.size() * tensor.source_size;
  }
  if (whole != 0) count += scale(context_.ranks, whole, window.bytes) + window.segments.size();
  return count;
}

std::uint64_t ExchangePart::head_of(const Segment& segment, std::uint64_t owner) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  if (!tensor.headed()) return owner;
  const Mesh& mesh = context_.layout.mesh();
  const RankGroup owners = RankGroup::along(mesh, tensor.mask, owner);
  // In turns, and other cells begin with other owners.
  return owners[ReaderOrder(owners, context_.params.nodes).member(segment.number + group_index(mesh, tensor.mask, owner))];
}

void ExchangePart::append_steps(std::size_t round, std::vector<ReadStep>& steps) const {
  if (round >= windows_.size()) return;
  const bool cut_anywhere = aligned(windows_[round]);
  for (const Segment& segment : windows_[round].segments) {
    const PlanTensor& tensor = context_.tensors[segment.tensor];
    const std::size_t ndim = context_.index.tensors[segment.tensor].shape.ndim();
    const bool rows = tensor.grain % tensor.row == 0 && !(cut_anywhere && tensor.band == 0);
    steps.push_back({segment.tensor, rows ? 1 : most_boxes(ndim)});
  }
}

bool ExchangePart::cuts_at_stripes(const Segment& segment, const Window& window) const {
  const TensorMeta& meta = context_.index.tensors[segment.tensor];
  const std::uint64_t size = context_.tensors[segment.tensor].source_size;
  return aligned(window) && meta.storage == StorageKind::contiguous && meta.offset % size == 0 &&
         context_.params.align % size == 0;
}

std::uint64_t ExchangePart::cut(const Segment& segment, const Window& window, std::uint64_t i) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const std::uint64_t size = tensor.source_size;
  const std::uint64_t bytes = segment.range.size() * size;
  const std::uint64_t at = scale(window.bytes, i, context_.ranks);
  if (at <= segment.window_offset) return segment.range.begin;
  if (at >= segment.window_offset + bytes) return segment.range.end;
  const std::uint64_t element = segment.range.begin + (at - segment.window_offset) / size;
  std::uint64_t down = element / tensor.grain * tensor.grain;
  if (cuts_at_stripes(segment, window)) {
    const std::uint64_t offset = context_.index.tensors[segment.tensor].offset;
    const std::uint64_t align = context_.params.align;
    down = (std::max(offset, (offset + element * size) / align * align) - offset) / size;
  }
  return std::max(segment.range.begin, down);
}

FlatRange ExchangePart::share_of(const Segment& segment, const Window& window, std::uint64_t reader) const {
  return {cut(segment, window, reader), cut(segment, window, reader + 1)};
}

std::uint64_t ExchangePart::reader_of(const Segment& segment, const Window& window, std::uint64_t element) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const std::uint64_t size = tensor.source_size;
  // The last reader whose cut, moved down to a unit, is not beyond the element.
  std::uint64_t unit_end = (element / tensor.grain + 1) * tensor.grain;
  if (cuts_at_stripes(segment, window)) {
    const std::uint64_t offset = context_.index.tensors[segment.tensor].offset;
    const std::uint64_t align = context_.params.align;
    unit_end = ((offset + element * size) / align * align + align - offset) / size;
  }
  unit_end = std::min(unit_end, segment.range.end);
  const auto product = static_cast<unsigned __int128>(segment.window_offset +
                                                      (unit_end - segment.range.begin) * size) *
                       context_.ranks;
  return static_cast<std::uint64_t>((product - 1) / window.bytes);
}

void ExchangePart::append_reads(const Segment& segment, const Window& window, std::uint32_t step, LoadPlan& plan,
                                BlockIndexes& indexes, Round& out) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const TensorMeta& meta = context_.index.tensors[segment.tensor];
  const FlatRange share = share_of(segment, window, plan.rank);
  if (share.empty()) return;
  const Mesh& mesh = context_.layout.mesh();
  const ShardPlace& own = plan.shards[segment.tensor];
  const std::uint64_t size = tensor.final_size;
  Dims self = mesh.coordinate(plan.rank);
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if (tensor.layout.dims[axis] == -1) self[axis] = 0;
  }
  // Of its own cell. In a save whoever has a cell writes its own.
  const bool saving = context_.params.saving;
  const bool head = saving || head_of(segment, plan.rank) == plan.rank;
  const BlockIndex& blocks = indexes.of(segment.tensor, own);
  for (Box& box : flat_boxes(meta.shape, share)) {
    std::optional<Place> in_place;
    blocks.for_each(box, [&](const Box& part, const Box& frame, std::uint64_t before) {
      if (!head || in_place || !(intersect(box, part) == box)) return;
      if (auto position = run_position(box, frame))
        in_place = Place{Space::shard, own.offset + (before + *position) * size};
    });
    Place place = in_place.value_or(Place{Space::stage, out.stage_bytes});
    if (!in_place) out.stage_bytes += box.elements() * size;
    for_each_shard(meta.shape, mesh, tensor.layout, box, [&](const Dims& coordinate, const Box& piece) {
      const bool to_self = head && coordinate == self;
      if (to_self && !in_place) {
        blocks.for_each(piece, [&](const Box&, const Box& frame, std::uint64_t before) {
          out.unpacks.push_back({segment.tensor, piece, place, box, {Space::shard, own.offset + before * size}, frame});
        });
      }
      if (to_self) return;
      FillItem send;
      send.kind = FillItem::Kind::send;
      send.tensor = segment.tensor;
      send.bytes = piece.elements() * size;
      send.box = piece;
      if (auto position = run_position(piece, box)) {
        send.at = {place.space, place.offset + *position * size};
      } else {
        send.at = {Space::stage, out.stage_bytes};
        out.stage_bytes += send.bytes;
        out.packs.push_back({segment.tensor, piece, place, box, send.at, piece});
      }
      const std::uint64_t owner = mesh.rank_of(coordinate);
      send.peer = narrow<std::uint32_t>(saving ? giver_of(RankGroup::along(mesh, tensor.mask, owner), plan.rank)
                                               : head_of(segment, owner));
      out.fills.push_back(std::move(send));
    });
    append_read(context_, segment.tensor, step, std::move(box), place, plan, out);
  }
}

void ExchangePart::append_receives(const Segment& segment, const Window& window, LoadPlan& plan, BlockIndexes& indexes,
                                   Round& out) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const TensorMeta& meta = context_.index.tensors[segment.tensor];
  const ShardPlace& own = plan.shards[segment.tensor];
  const bool saving = context_.params.saving;
  if (own.bytes == 0 || (!saving && head_of(segment, plan.rank) != plan.rank)) return;
  const std::uint64_t size = tensor.final_size;
  // Readers whose share can meet this shard: from its first to its last element in the flattened tensor. From one
  // share's end to the next, so that only readers that have something are visited, however many ranks there are.
  const Box& front = own.blocks.empty() ? own.box : own.blocks.front().box;
  const Box& back = own.blocks.empty() ? own.box : own.blocks.back().box;
  Dims last = back.start;
  for (std::size_t d = 0; d < last.size(); ++d) last[d] += back.extent[d] - 1;
  const FlatRange hull{std::max(segment.range.begin, flat_index(meta.shape, front.start)),
                       std::min(segment.range.end, flat_index(meta.shape, last) + 1)};
  if (hull.empty()) return;
  const BlockIndex& blocks = indexes.of(segment.tensor, own);
  for (std::uint64_t element = hull.begin; element < hull.end;) {
    const std::uint64_t reader = reader_of(segment, window, element);
    const FlatRange share = share_of(segment, window, reader);
    element = share.end;
    if (reader == plan.rank) continue;
    if (saving && tensor.replicas > 1 &&
        giver_of(plan.groups[static_cast<std::size_t>(plan.replicas[segment.tensor])], reader) != plan.rank) {
      continue;
    }
    for (const Box& box : flat_boxes(meta.shape, share)) {
      blocks.for_each(box, [&](const Box& part, const Box& frame, std::uint64_t before) {
        const Box piece = intersect(box, part);
        FillItem receive;
        receive.kind = FillItem::Kind::receive;
        receive.tensor = segment.tensor;
        receive.peer = narrow<std::uint32_t>(reader);
        receive.bytes = piece.elements() * size;
        receive.box = piece;
        const Place block{Space::shard, own.offset + before * size};
        if (auto position = run_position(piece, frame)) {
          receive.at = {Space::shard, block.offset + *position * size};
        } else {
          receive.at = {Space::stage, out.stage_bytes};
          out.stage_bytes += receive.bytes;
          out.unpacks.push_back({segment.tensor, piece, receive.at, piece, block, frame});
        }
        out.fills.push_back(std::move(receive));
      });
    }
  }
}

// What all ranks own: every reader has its share in place already.
void ExchangePart::append_broadcasts(const Segment& segment, const Window& window, LoadPlan& plan, Round& out) const {
  const std::uint64_t size = context_.tensors[segment.tensor].final_size;
  std::uint64_t reader = reader_of(segment, window, segment.range.begin);
  for (std::uint64_t element = segment.range.begin; element < segment.range.end; ++reader) {
    std::uint64_t end = cut(segment, window, reader + 1);
    if (end == element) {  // there may be far more ranks than units
      reader = reader_of(segment, window, element);
      end = cut(segment, window, reader + 1);
    }
    FillItem& fill = out.fills.emplace_back(broadcast_of(segment.tensor, size, {element, end}, plan));
    fill.peer = narrow<std::uint32_t>(reader);
    element = end;
  }
}

// The head of this rank's cell passes on the segment's part of it: one stretch, since a shard has its elements in the
// tensor's order.
void ExchangePart::append_shared(const Segment& segment, LoadPlan& plan, BlockIndexes& indexes, Round& out) const {
  const BlockIndex& blocks = indexes.of(segment.tensor, plan.shards[segment.tensor]);
  const Shape& shape = context_.index.tensors[segment.tensor].shape;
  const FlatRange range{blocks.elements_before(shape, segment.range.begin), blocks.elements_before(shape, segment.range.end)};
  if (range.empty()) return;
  FillItem fill = broadcast_of(segment.tensor, context_.tensors[segment.tensor].final_size, range, plan);
  fill.peer = narrow<std::uint32_t>(plan.groups[fill.group].find(head_of(segment, plan.rank)).value());
  out.fills.push_back(std::move(fill));
}

void ExchangePart::append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& blocks,
                          Round& out) const {
  if (round < windows_.size()) {
    const Window& window = windows_[round];
    for (const Segment& segment : window.segments) {
      append_reads(segment, window, first_step++, plan, blocks, out);
      if (context_.tensors[segment.tensor].sharded) {
        append_receives(segment, window, plan, blocks, out);
      } else if (context_.ranks > 1 && !context_.params.saving) {
        append_broadcasts(segment, window, plan, out);
      }
    }
  }
  if (const Window* shared = shared_in(round)) {
    for (const Segment& segment : shared->segments) {
      if (context_.tensors[segment.tensor].headed()) append_shared(segment, plan, blocks, out);
    }
  }
}

}  // namespace slabload
