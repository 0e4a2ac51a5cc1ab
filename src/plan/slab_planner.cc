#include "plan/slab_planner.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload {
namespace {

constexpr std::uint64_t kEvenness = 64;           // parts are cut to 1/64 of their size or finer
constexpr std::uint64_t kSharedGrain = 16 << 10;  // bytes: cuts between readers of a window

// The largest number of trailing-dimension elements (a whole row, a row of a row, ...) that is at most
// `limit`.
std::uint64_t row_grain(const Dims& extent, std::uint64_t limit) {
  std::uint64_t grain = 1;
  for (std::size_t d = extent.size(); d-- > 1;) {
    if (extent[d] == 0 || grain > limit / extent[d]) break;
    grain *= extent[d];
  }
  return grain;
}

std::uint64_t row_of(const Shape& shape) {
  return shape.ndim() == 0 ? 1 : shape.elements_from(1);
}

// The most boxes a range cut at multiples of `grain` elements can have.
std::uint32_t boxes_at_most(const Shape& shape, std::uint64_t grain) {
  if (shape.ndim() <= 1 || grain % row_of(shape) == 0) return 1;
  return narrow<std::uint32_t>(2 * shape.ndim() - 1);
}

Box relative(const Box& box, const Box& outer) {
  Box out = box;
  for (std::size_t d = 0; d < box.ndim(); ++d) out.start[d] -= outer.start[d];
  return out;
}

bool contiguous_in(const Box& box, const Box& outer) {
  return runs_of(Shape(outer.extent), relative(box, outer)).count == 1;
}

// The flat position of `box` within a dense buffer that holds `outer`.
std::uint64_t position_in(const Box& box, const Box& outer) {
  return flat_index(Shape(outer.extent), relative(box, outer).start);
}

}  // namespace

std::uint64_t SlabPlanner::Need::total(std::uint64_t ranks) const {
  if (read_bytes == 0) return 0;
  // A reader's share is at most the even part and one grain more, since cuts are moved down to a grain.
  std::uint64_t share = std::min(read_bytes, ceil_div(staged_bytes, ranks)) * widening + largest_grain;
  return share + (strided ? share + unpack_bytes : 0);
}

SlabPlanner::SlabPlanner(const TensorIndex& index, const Layout& layout, const PlanParams& params)
    : index_(index), layout_(layout), params_(params), ranks_(layout.mesh().ranks()) {
  const bool converts = converts_any(index, params.cast);
  choices_.reserve(index.tensors.size());
  for (const TensorMeta& tensor : index.tensors) choices_.push_back(choose(tensor));

  // The smallest budget that works: every window holds at least one grain.
  auto split_of = [&](std::uint64_t budget) {
    PlanParams with = params_;
    with.staging = budget;
    return split_staging(with, converts);
  };
  auto worst_need = [&](std::uint64_t capacity) {
    std::uint64_t worst = 0;
    for (std::size_t t = 0; t < choices_.size(); ++t) {
      Choice copy = choices_[t];
      worst = std::max(worst, smallest_need(index_.tensors[t], copy, capacity));
    }
    return worst;
  };
  auto fits = [&](std::uint64_t budget) {
    std::optional<StagingSplit> split = split_of(budget);
    return split && worst_need(split->round_bytes) <= split->round_bytes;
  };
  if (!fits(params_.staging)) {
    constexpr std::uint64_t kAnyBudget = std::uint64_t{1} << 60;
    if (!fits(kAnyBudget)) {
      const std::uint64_t slot = split_of(kAnyBudget)->round_bytes;
      fail(Status::usage, "--slot-bytes {}: too small for this plan, which needs slots of {} bytes",
           format_binary(slot), worst_need(slot));
    }
    std::uint64_t low = params_.staging;
    std::uint64_t high = std::max<std::uint64_t>(low, 1);
    while (!fits(high)) high *= 2;
    while (high - low > 1) {
      std::uint64_t middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    fail(
        Status::usage,
        "--staging {}: this plan does not fit, it lacks {} bytes; the smallest budget that works is {} bytes",
        format_binary(params_.staging), high - params_.staging, high);
  }
  split_ = *split_of(params_.staging);
  for (std::size_t t = 0; t < choices_.size(); ++t)
    smallest_need(index_.tensors[t], choices_[t], split_.round_bytes);
  outline_rounds();
}

SlabPlanner::Choice SlabPlanner::choose(const TensorMeta& tensor) {
  Choice c;
  const Mesh& mesh = layout_.mesh();
  c.layout = layout_.resolve(tensor);
  c.dtype = final_dtype(tensor, params_.cast);
  c.source_size = dtype_size(tensor.dtype);
  c.final_size = dtype_size(c.dtype);
  c.largest = local_box(tensor.shape, mesh, c.layout, Dims(mesh.ndim(), 0));
  c.mask = replica_mask(mesh, c.layout);
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if ((c.mask >> axis) & 1) c.replicas *= mesh.axis(axis).size;
    c.sharded |= c.layout.dims[axis] >= 0 && mesh.axis(axis).size > 1;
  }
  std::uint64_t cell = c.largest.elements();
  if (cell == 0) return c;
  RunPattern runs = runs_of(tensor.shape, c.largest);
  // A shard of another rank may be strided where the largest is not only if the tensor is cut along an inner
  // dimension.
  c.strided = runs.count > 1;
  bool fill = tensor.storage == StorageKind::fill;
  std::uint64_t owners = fill ? 1 : c.replicas;
  if (fill) {
    c.replicas = 1;  // nothing to read: every owner writes the fill value itself
  }
  std::uint64_t part = ceil_div(cell, owners);
  std::uint64_t run_bytes = std::min(runs.length, part) * c.source_size;
  bool whole_chunks = !tensor.filtered() || (ranks_ == 1);
  c.direct = fill || ranks_ == 1 || (run_bytes >= params_.min_read && whole_chunks && run_bytes > 0);
  if (!c.direct) return c;

  // The parts of a piece are equal (an all-gather in place wants that), so the unit must be small against
  // them.
  std::uint64_t widest = std::max(c.source_size, c.final_size);
  std::uint64_t cap = std::min(params_.round_bytes, (kItemLimit - 1) / owners) / widest;
  std::uint64_t part_cap = std::max<std::uint64_t>(1, std::min(cap, part));
  c.grain = row_grain(c.largest.extent, std::max<std::uint64_t>(1, part_cap / (owners == 1 ? 1 : kEvenness)));
  if (tensor.chunked() && ranks_ == 1) {
    std::uint64_t band = tensor.chunk[0] * row_of(tensor.shape);
    if (band * widest < kItemLimit) c.grain = band;  // a chunk is decoded once
  }
  // As many equal pieces as the cap asks for, so that no piece is left over that is too small to be worth a
  // request.
  std::uint64_t part_most = std::max<std::uint64_t>(1, cap / c.grain) * c.grain;
  std::uint64_t pieces = ceil_div(part, part_most);
  c.piece = align_up(ceil_div(part, pieces), c.grain) * owners;
  return c;
}

// What one grain of a shared tensor needs; takes a finer grain if a band of chunks is too much for
// `capacity`.
std::uint64_t SlabPlanner::smallest_need(const TensorMeta& tensor, Choice& c, std::uint64_t capacity) const {
  if (c.direct || c.largest.elements() == 0) return 0;
  std::uint64_t row = row_of(tensor.shape);
  std::uint64_t fine =
      row_grain(tensor.shape.lengths(), std::max<std::uint64_t>(1, kSharedGrain / c.source_size));
  if (tensor.chunked() &&
      scale(tensor.chunk[0], row, 1) < kItemLimit / std::max(c.source_size, c.final_size)) {
    c.grain = tensor.chunk[0] * row;
    std::uint64_t need = grown(Need{}, c, tensor, std::min(c.grain, tensor.elements())).total(ranks_);
    if (need <= capacity) return need;
  }
  c.grain = fine;
  return grown(Need{}, c, tensor, std::min(c.grain, tensor.elements())).total(ranks_);
}

SlabPlanner::Need SlabPlanner::grown(const Need& need, const Choice& c, const TensorMeta& tensor,
                                     std::uint64_t elements) const {
  Need out = need;
  out.staged_bytes += elements * c.source_size;
  if (!c.sharded) return out;  // every rank owns all of it: read and received in place
  out.read_bytes += elements * c.source_size;
  out.largest_grain = std::max(out.largest_grain, c.grain * c.final_size);
  out.widening = std::max(out.widening, ceil_div(c.final_size, c.source_size));
  if (c.strided) {
    out.strided = true;
    // Rows touched (one more where the range begins inside a row), each with the largest shard's part of it.
    std::uint64_t row = row_of(tensor.shape);
    std::uint64_t rows =
        std::min(ceil_div(elements, row) + (c.grain % row == 0 ? 0 : 1), c.largest.extent[0]);
    std::uint64_t local_row = c.largest.elements() / c.largest.extent[0];
    std::uint64_t arriving = std::min({elements, scale(rows, local_row, 1), c.largest.elements()});
    out.unpack_bytes += arriving * c.final_size;
  }
  return out;
}

void SlabPlanner::outline_rounds() {
  // Direct pieces and windows are cut apart from each other, so that windows grow as large as staging allows,
  // and then run side by side.
  for (std::uint32_t t = 0; t < choices_.size(); ++t) {
    if (choices_[t].largest.elements() == 0) continue;
    if (choices_[t].direct) {
      outline_direct(t);
    } else {
      outline_shared(t);
    }
  }
  close_direct();
  close_window();
  rounds_.resize(std::max(direct_rounds_.size(), windows_.size()));
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    RoundOutline& round = rounds_[r];
    if (r < direct_rounds_.size()) round.direct = std::move(direct_rounds_[r]);
    if (r < windows_.size()) round.window = std::move(windows_[r]);
    for (const DirectPiece& piece : round.direct)
      round.steps.push_back({piece.tensor, direct_calls(piece.tensor)});
    for (const Segment& segment : round.window.segments) {
      std::uint32_t calls =
          boxes_at_most(index_.tensors[segment.tensor].shape, choices_[segment.tensor].grain);
      round.steps.push_back({segment.tensor, calls});
    }
  }
}

void SlabPlanner::close_direct() {
  if (open_direct_.empty()) return;
  direct_rounds_.push_back(std::move(open_direct_));
  open_direct_ = {};
  direct_bytes_ = 0;
}

void SlabPlanner::close_window() {
  if (open_window_.segments.empty()) return;
  windows_.push_back(std::move(open_window_));
  open_window_ = {};
  need_ = {};
}

std::uint32_t SlabPlanner::direct_calls(std::uint32_t t) const {
  const Choice& c = choices_[t];
  // Ranks whose cell has other inner lengths cut it at other places: then any part may be several boxes.
  bool same_rows = std::none_of(c.layout.dims.begin(), c.layout.dims.end(), [](int d) { return d > 0; });
  if (same_rows) return boxes_at_most(Shape(c.largest.extent), c.grain);
  return narrow<std::uint32_t>(2 * c.largest.ndim() - 1);
}

void SlabPlanner::outline_direct(std::uint32_t t) {
  const Choice& c = choices_[t];
  std::uint64_t cell = c.largest.elements();
  std::uint64_t number = 0;
  for (std::uint64_t e = 0; e < cell; e += c.piece, ++number) {
    std::uint64_t bytes = ceil_div(std::min(c.piece, cell - e), c.replicas) * c.source_size;
    if (direct_bytes_ != 0 && direct_bytes_ + bytes > params_.round_bytes) close_direct();
    open_direct_.push_back({t, number});
    direct_bytes_ += bytes;
  }
}

void SlabPlanner::outline_shared(std::uint32_t t) {
  const TensorMeta& tensor = index_.tensors[t];
  const Choice& c = choices_[t];
  std::uint64_t elements = tensor.elements();
  for (std::uint64_t e = 0; e < elements;) {
    std::uint64_t grains_left = ceil_div(elements - e, c.grain);
    auto fits = [&](std::uint64_t grains) {
      std::uint64_t count = std::min(grains * c.grain, elements - e);
      Need need = grown(need_, c, tensor, count);
      return need.total(ranks_) <= split_.round_bytes &&
             ceil_div(need.staged_bytes, ranks_) <= params_.round_bytes &&
             count <= (kItemLimit - 1) / std::max(c.final_size, c.source_size);
    };
    std::uint64_t low = 0;
    std::uint64_t high = grains_left;
    while (low < high) {
      std::uint64_t middle = low + (high - low + 1) / 2;
      if (fits(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    if (low == 0 && !open_window_.segments.empty()) {
      close_window();
      continue;
    }
    low = std::max<std::uint64_t>(low, 1);  // one grain always fits an empty window: the budget was checked
    std::uint64_t count = std::min(low * c.grain, elements - e);
    open_window_.segments.push_back({t, {e, e + count}, open_window_.bytes});
    open_window_.bytes += count * c.source_size;
    need_ = grown(need_, c, tensor, count);
    e += count;
    if (e < elements) close_window();
  }
}

FlatRange SlabPlanner::share_of(const Segment& segment, std::uint64_t window_bytes,
                                std::uint64_t reader) const {
  const Choice& c = choices_[segment.tensor];
  std::uint64_t bytes = segment.range.size() * c.source_size;
  auto cut = [&](std::uint64_t i) {
    std::uint64_t at = scale(window_bytes, i, ranks_);
    if (at <= segment.window_offset) return segment.range.begin;
    if (at >= segment.window_offset + bytes) return segment.range.end;
    std::uint64_t element = segment.range.begin + (at - segment.window_offset) / c.source_size;
    return std::max(segment.range.begin, element / c.grain * c.grain);
  };
  return {cut(reader), cut(reader + 1)};
}

void SlabPlanner::plan_direct(const DirectPiece& piece, std::uint32_t step, LoadPlan& plan,
                              Round& round) const {
  const Choice& c = choices_[piece.tensor];
  const ShardPlace& shard = plan.shards[piece.tensor];
  std::uint64_t cell = shard.box.elements();
  FlatRange range{piece.number * c.piece, std::min(cell, (piece.number + 1) * c.piece)};
  if (range.empty()) return;
  std::uint64_t part = align_up(ceil_div(range.size(), c.replicas), c.grain);
  std::uint64_t member = 0;
  if (c.replicas > 1) {
    const std::vector<int>& group = plan.groups.at(static_cast<std::size_t>(plan.replicas[piece.tensor]));
    member = static_cast<std::uint64_t>(
        std::lower_bound(group.begin(), group.end(), static_cast<int>(plan.rank)) - group.begin());
  }
  FlatRange mine{std::min(range.end, range.begin + member * part),
                 std::min(range.end, range.begin + (member + 1) * part)};
  std::uint64_t offset = shard.offset + mine.begin * c.final_size;
  for (Box& box : flat_boxes_in(shard.box, mine)) {
    std::uint64_t bytes = box.elements() * c.final_size;
    round.reads.push_back({piece.tensor, step, std::move(box), {Space::shard, offset}});
    offset += bytes;
  }
  if (c.replicas == 1) return;
  FillItem fill;
  fill.kind = FillItem::Kind::all_gather;
  fill.tensor = piece.tensor;
  fill.group = static_cast<std::uint32_t>(plan.replicas[piece.tensor]);
  fill.at = {Space::shard, shard.offset + range.begin * c.final_size};
  fill.bytes = range.size() * c.final_size;
  fill.part = part * c.final_size;
  fill.range = range;
  round.fills.push_back(std::move(fill));
}

void SlabPlanner::plan_reading(const Segment& segment, const Window& window, std::uint32_t step,
                               LoadPlan& plan, Round& round) const {
  const Choice& c = choices_[segment.tensor];
  const TensorMeta& tensor = index_.tensors[segment.tensor];
  const ShardPlace& own = plan.shards[segment.tensor];
  for (Box& box : flat_boxes(tensor.shape, share_of(segment, window.bytes, plan.rank))) {
    bool in_place = intersect(box, own.box) == box && contiguous_in(box, own.box);
    Place place{Space::shard, 0};
    if (in_place) {
      place.offset = own.offset + position_in(box, own.box) * c.final_size;
    } else {
      place = {Space::stage, round.stage_bytes};
      round.stage_bytes += box.elements() * c.final_size;
    }
    for_each_shard(
        tensor.shape, layout_.mesh(), c.layout, box, [&](const Dims& coordinate, const Box& shard) {
          Box piece = intersect(box, shard);
          bool to_self = shard == own.box;
          if (to_self && !in_place) {
            round.unpacks.push_back({segment.tensor, piece, place, box, {Space::shard, own.offset}, own.box});
          }
          if (to_self && c.replicas == 1) return;
          FillItem send;
          send.kind = FillItem::Kind::send;
          send.tensor = segment.tensor;
          send.bytes = piece.elements() * c.final_size;
          send.box = piece;
          if (contiguous_in(piece, box)) {
            send.at = {place.space, place.offset + position_in(piece, box) * c.final_size};
          } else {
            send.at = {Space::stage, round.stage_bytes};
            round.stage_bytes += send.bytes;
            round.packs.push_back({segment.tensor, piece, place, box, send.at, piece});
          }
          for (int rank : ranks_along(layout_.mesh(), c.mask, layout_.mesh().rank_of(coordinate))) {
            if (static_cast<std::uint64_t>(rank) == plan.rank) continue;
            send.peer = static_cast<std::uint32_t>(rank);
            round.fills.push_back(send);
          }
        });
    round.reads.push_back({segment.tensor, step, std::move(box), place});
  }
}

void SlabPlanner::plan_receiving(const Segment& segment, const Window& window, LoadPlan& plan,
                                 Round& round) const {
  const Choice& c = choices_[segment.tensor];
  const TensorMeta& tensor = index_.tensors[segment.tensor];
  const ShardPlace& own = plan.shards[segment.tensor];
  if (own.bytes == 0) return;
  // Readers whose share can meet this shard: from its first to its last element in the flattened tensor.
  Dims last = own.box.start;
  for (std::size_t d = 0; d < last.size(); ++d) last[d] += own.box.extent[d] - 1;
  FlatRange hull{std::max(segment.range.begin, flat_index(tensor.shape, own.box.start)),
                 std::min(segment.range.end, flat_index(tensor.shape, last) + 1)};
  if (hull.empty()) return;
  auto window_byte = [&](std::uint64_t element) {
    return segment.window_offset + (element - segment.range.begin) * c.source_size;
  };
  // The reader of an element: the last whose cut, moved down to a grain, is not beyond it. From one share's
  // end to the next, so that only readers that have something are visited, however many ranks there are.
  auto reader_of = [&](std::uint64_t element) {
    std::uint64_t grain_end = std::min(segment.range.end, (element / c.grain + 1) * c.grain);
    auto product = static_cast<unsigned __int128>(window_byte(grain_end)) * ranks_;
    return static_cast<std::uint64_t>((product - 1) / window.bytes);
  };
  for (std::uint64_t element = hull.begin; element < hull.end;) {
    std::uint64_t reader = reader_of(element);
    FlatRange share = share_of(segment, window.bytes, reader);
    element = share.end;
    if (reader == plan.rank) continue;
    for (const Box& box : flat_boxes(tensor.shape, share)) {
      Box piece = intersect(box, own.box);
      if (piece.empty()) continue;
      FillItem receive;
      receive.kind = FillItem::Kind::receive;
      receive.tensor = segment.tensor;
      receive.peer = narrow<std::uint32_t>(reader);
      receive.bytes = piece.elements() * c.final_size;
      receive.box = piece;
      if (contiguous_in(piece, own.box)) {
        receive.at = {Space::shard, own.offset + position_in(piece, own.box) * c.final_size};
      } else {
        receive.at = {Space::stage, round.stage_bytes};
        round.stage_bytes += receive.bytes;
        round.unpacks.push_back(
            {segment.tensor, piece, receive.at, piece, {Space::shard, own.offset}, own.box});
      }
      round.fills.push_back(std::move(receive));
    }
  }
}

LoadPlan SlabPlanner::plan(std::uint64_t rank) const {
  LoadPlan plan;
  plan.rank = rank;
  plan.rounds_at_once = split_.rounds;
  std::vector<TensorLayout> resolved;
  for (const Choice& c : choices_) {
    resolved.push_back(c.layout);
    plan.dtypes.push_back(c.dtype);
  }
  plan.shards = place_shards(index_, layout_, resolved, params_.cast, rank, &plan.shard_bytes);
  add_replica_groups(layout_, resolved, plan);
  for (const RoundOutline& outline : rounds_) {
    Round round;
    round.steps = outline.steps;
    round.communicates =
        ranks_ > 1 && (!outline.window.segments.empty() ||
                       std::any_of(outline.direct.begin(), outline.direct.end(),
                                   [&](const DirectPiece& p) { return choices_[p.tensor].replicas > 1; }));
    std::uint32_t step = 0;
    for (const DirectPiece& piece : outline.direct) plan_direct(piece, step++, plan, round);
    for (const Segment& segment : outline.window.segments) {
      plan_reading(segment, outline.window, step++, plan, round);
      plan_receiving(segment, outline.window, plan, round);
    }
    plan.stage_bytes = std::max(plan.stage_bytes, round.stage_bytes);
    plan.rounds.push_back(std::move(round));
  }
  return plan;
}

std::string SlabPlanner::why() const {
  std::uint64_t direct = 0;
  std::uint64_t shared = 0;
  std::uint64_t shared_bytes = 0;
  for (std::size_t t = 0; t < choices_.size(); ++t) {
    if (choices_[t].largest.elements() == 0) continue;
    (choices_[t].direct ? direct : shared) += 1;
    if (!choices_[t].direct) shared_bytes += index_.tensors[t].bytes();
  }
  return fmt::format(
      "every rank reads its own slab: {} tensors straight to their place, {} ({}) in merged requests and "
      "sent on",
      direct, shared, format_bytes(shared_bytes));
}

}  // namespace slabload
