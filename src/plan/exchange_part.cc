#include "plan/exchange_part.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {
namespace {

constexpr std::uint64_t kGrainBytes = 16 << 10;  // cuts between readers of a window lie at multiples of it

// Extents are cut at stripes where that leaves them even; two stripes at least, where the user asks for wide extents.
bool worth_aligning(std::uint64_t window_bytes, std::uint64_t ranks, const PlanParams& params) {
  const std::uint64_t stripes = params.strategy == "linear" ? 2 : 32;
  return params.align != 0 && window_bytes / ranks / stripes >= params.align;
}

// Of a cell's owners, the number of the one that gives a writer its piece: the writer itself, or else the nearest, which
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
  return low > 0 && distance(low - 1) <= distance(low) ? low - 1 : low;
}

// A block of a shard of many, by its box; blocks lie in the order of their elements.
const ShardBlock* find_block(const std::vector<ShardBlock>& blocks, const Box& box) {
  auto found = std::lower_bound(blocks.begin(), blocks.end(), box.start,
                                [](const ShardBlock& block, const Dims& start) { return block.box.start < start; });
  return found != blocks.end() && found->box == box ? &*found : nullptr;
}

}  // namespace

ExchangePart::Need ExchangePart::Need::with(const PlanTensor& tensor, std::uint64_t elements) const {
  Need out = *this;
  out.staged_bytes += elements * tensor.source_size;
  if (!tensor.sharded) return out;  // every rank owns all of it: read and received in place
  out.read_bytes += elements * tensor.source_size;
  out.largest_grain = std::max(out.largest_grain, tensor.grain * tensor.final_size);
  out.widening = std::max(out.widening, ceil_div(tensor.final_size, tensor.source_size));
  if (!tensor.strided) return out;
  out.strided = true;
  // Rows touched (one more where the range begins inside a row), each with the largest shard's part of it.
  const std::uint64_t touched = ceil_div(elements, tensor.row) + (tensor.grain % tensor.row == 0 ? 0 : 1);
  const std::uint64_t rows = std::min(touched, tensor.lengths[0]);
  const std::uint64_t local_row = tensor.cell / tensor.lengths[0];
  std::uint64_t arriving = std::min(elements, tensor.cell);
  // Strided cuts need not give the first rank the longest rows.
  if (tensor.layout.factors.empty()) arriving = std::min(arriving, scale(rows, local_row, 1));
  out.unpack_bytes += arriving * tensor.final_size;
  return out;
}

std::uint64_t ExchangePart::Need::total(std::uint64_t ranks, const PlanParams& params) const {
  if (read_bytes == 0) return 0;
  // A reader's share is at most the even part and one unit more, since cuts are moved down to a unit.
  std::uint64_t unit = largest_grain;
  if (worth_aligning(staged_bytes, ranks, params)) unit = std::max(unit, params.align * widening);
  const std::uint64_t share = std::min(read_bytes, ceil_div(staged_bytes, ranks)) * widening + unit;
  return share + (strided ? share + unpack_bytes : 0);
}

std::uint64_t ExchangePart::prepare(const TensorMeta& meta, const PlanParams& params, std::uint64_t ranks,
                                    std::uint64_t capacity, PlanTensor& tensor) {
  auto need = [&] {
    return Need{}.with(tensor, std::min(tensor.grain, tensor.elements)).total(ranks, params);
  };
  if (meta.chunked()) {
    const std::uint64_t band = scale(meta.chunk[0], tensor.row, 1);
    if (band < kItemLimit / tensor.widest()) {
      tensor.grain = std::max<std::uint64_t>(1, band);
      // Whoever writes a compressed chunk must have all of it.
      const bool whole = params.saving && meta.filtered();
      if (const std::uint64_t bytes = need(); bytes <= capacity || whole) return bytes;
    }
  }
  tensor.grain = row_grain(meta.shape.lengths(), std::max<std::uint64_t>(1, kGrainBytes / tensor.source_size));
  return need();
}

void ExchangePart::add(std::uint32_t t) {
  const PlanTensor& tensor = context_.tensors[t];
  const std::uint64_t ranks = context_.ranks;
  for (std::uint64_t e = 0; e < tensor.elements;) {
    auto count_of = [&](std::uint64_t grains) {
      return std::min(scale(grains, tensor.grain, 1), tensor.elements - e);
    };
    auto fits = [&](std::uint64_t grains) {
      const std::uint64_t count = count_of(grains);
      const Need need = need_.with(tensor, count);
      return need.total(ranks, context_.params) <= context_.split.round_bytes &&
             ceil_div(need.staged_bytes, ranks) <= context_.params.round_bytes &&
             count <= (kItemLimit - 1) / tensor.widest();
    };
    std::uint64_t low = 0;
    std::uint64_t high = ceil_div(tensor.elements - e, tensor.grain);
    while (low < high) {
      const std::uint64_t middle = low + (high - low + 1) / 2;
      if (fits(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    if (low == 0 && !open_.segments.empty()) {
      close();
      continue;
    }
    low = std::max<std::uint64_t>(low, 1);  // one grain always fits an empty window: the budget was checked
    const std::uint64_t count = count_of(low);
    open_.segments.push_back({t, {e, e + count}, open_.bytes});
    open_.bytes += count * tensor.source_size;
    need_ = need_.with(tensor, count);
    e += count;
    if (e < tensor.elements) close();
  }
}

void ExchangePart::close() {
  if (open_.segments.empty()) return;
  windows_.push_back(std::move(open_));
  open_ = {};
  need_ = {};
}

bool ExchangePart::aligned(const Window& window) const {
  return worth_aligning(window.bytes, context_.ranks, context_.params);
}

void ExchangePart::append_steps(std::size_t round, std::vector<ReadStep>& steps) const {
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

FlatRange ExchangePart::share_of(const Segment& segment, const Window& window, std::uint64_t reader) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const std::uint64_t size = tensor.source_size;
  const std::uint64_t bytes = segment.range.size() * size;
  const std::uint64_t offset = context_.index.tensors[segment.tensor].offset;
  const std::uint64_t align = context_.params.align;
  const bool stripes = cuts_at_stripes(segment, window);
  auto cut = [&](std::uint64_t i) {
    const std::uint64_t at = scale(window.bytes, i, context_.ranks);
    if (at <= segment.window_offset) return segment.range.begin;
    if (at >= segment.window_offset + bytes) return segment.range.end;
    const std::uint64_t element = segment.range.begin + (at - segment.window_offset) / size;
    std::uint64_t down = element / tensor.grain * tensor.grain;
    if (stripes) down = (std::max(offset, (offset + element * size) / align * align) - offset) / size;
    return std::max(segment.range.begin, down);
  };
  return {cut(reader), cut(reader + 1)};
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
                                Round& out) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const TensorMeta& meta = context_.index.tensors[segment.tensor];
  const Mesh& mesh = context_.layout.mesh();
  const ShardPlace& own = plan.shards[segment.tensor];
  const std::uint64_t size = tensor.final_size;
  Dims self = mesh.coordinate(plan.rank);
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if (tensor.layout.dims[axis] == -1) self[axis] = 0;
  }
  for (Box& box : flat_boxes(meta.shape, share_of(segment, window, plan.rank))) {
    std::optional<Place> in_place;
    for_each_block(own.box, own.blocks, [&](const Box& part, const Box& frame, std::uint64_t before) {
      if (in_place || !(intersect(box, part) == box)) return;
      if (auto position = run_position(box, frame))
        in_place = Place{Space::shard, own.offset + (before + *position) * size};
    });
    Place place = in_place.value_or(Place{Space::stage, out.stage_bytes});
    if (!in_place) out.stage_bytes += box.elements() * size;
    for_each_shard(meta.shape, mesh, tensor.layout, box, [&](const Dims& coordinate, const Box& part) {
      const Box piece = intersect(box, part);
      const bool to_self = coordinate == self;
      if (to_self && !in_place) {
        const ShardBlock* block = own.blocks.empty() ? nullptr : find_block(own.blocks, part);
        const Place to{Space::shard, own.offset + (block == nullptr ? 0 : block->offset * size)};
        out.unpacks.push_back({segment.tensor, piece, place, box, to, block == nullptr ? own.box : block->frame});
      }
      if (to_self && (tensor.replicas == 1 || context_.params.saving)) return;
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
      const RankGroup owners = RankGroup::along(mesh, tensor.mask, mesh.rank_of(coordinate));
      const bool one = context_.params.saving;
      const std::uint64_t first = one ? giver_of(owners, plan.rank) : 0;
      for (std::uint64_t i = first; i < (one ? first + 1 : tensor.replicas); ++i) {
        const std::uint64_t rank = owners[i];
        if (rank == plan.rank) continue;
        send.peer = narrow<std::uint32_t>(rank);
        out.fills.push_back(send);
      }
    });
    append_read(context_, segment.tensor, step, std::move(box), place, plan, out);
  }
}

void ExchangePart::append_receives(const Segment& segment, const Window& window, LoadPlan& plan, Round& out) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const TensorMeta& meta = context_.index.tensors[segment.tensor];
  const ShardPlace& own = plan.shards[segment.tensor];
  if (own.bytes == 0) return;
  const std::uint64_t size = tensor.final_size;
  // Readers whose share can meet this shard: from its first to its last element in the flattened tensor. From one
  // share's end to the next, so that only readers that have something are visited, however many ranks there are.
  FlatRange hull{UINT64_MAX, 0};
  for_each_block(own.box, own.blocks, [&](const Box& part, const Box&, std::uint64_t) {
    Dims last = part.start;
    for (std::size_t d = 0; d < last.size(); ++d) last[d] += part.extent[d] - 1;
    hull.begin = std::min(hull.begin, flat_index(meta.shape, part.start));
    hull.end = std::max(hull.end, flat_index(meta.shape, last) + 1);
  });
  hull = {std::max(segment.range.begin, hull.begin), std::min(segment.range.end, hull.end)};
  if (hull.empty()) return;
  for (std::uint64_t element = hull.begin; element < hull.end;) {
    const std::uint64_t reader = reader_of(segment, window, element);
    const FlatRange share = share_of(segment, window, reader);
    element = share.end;
    if (reader == plan.rank) continue;
    if (context_.params.saving && tensor.replicas > 1) {
      const RankGroup& owners = plan.groups[static_cast<std::size_t>(plan.replicas[segment.tensor])];
      if (owners[giver_of(owners, reader)] != plan.rank) continue;
    }
    for (const Box& box : flat_boxes(meta.shape, share)) {
      for_each_block(own.box, own.blocks, [&](const Box& part, const Box& frame, std::uint64_t before) {
        const Box piece = intersect(box, part);
        if (piece.empty()) return;
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

void ExchangePart::append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, Round& out) const {
  const Window& window = windows_[round];
  for (const Segment& segment : window.segments) {
    append_reads(segment, window, first_step++, plan, out);
    append_receives(segment, window, plan, out);
  }
}

}  // namespace slabload
