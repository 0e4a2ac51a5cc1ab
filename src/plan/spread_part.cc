#include "plan/spread_part.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {
namespace {

// Few ranks, or one, may have to read and broadcast a whole window.
constexpr std::uint64_t kLargestWindow = kItemLimit / 2;

}  // namespace

void SpreadPart::prepare(const Shape& shape, PlanTensor& tensor) {
  tensor.grain = tensor.band != 0 ? tensor.band
                                  : row_grain(shape.lengths(), std::max<std::uint64_t>(1, kCutBytes / tensor.source_size));
}

void SpreadPart::add(std::uint32_t t) {
  const PlanTensor& tensor = context_.tensors[t];
  const std::uint64_t bytes = tensor.elements * tensor.final_size;
  if (open_.staged_bytes + bytes > std::min(context_.split.round_bytes, kLargestWindow) ||
      open_.stored_bytes + tensor.stored_bytes() > kLargestWindow) {
    close();
  }
  open_.segments.push_back({t, open_.stored_bytes, open_.staged_bytes});
  open_.stored_bytes += tensor.stored_bytes();
  open_.staged_bytes += bytes;
}

void SpreadPart::close() {
  if (open_.segments.empty()) return;
  open_.readers = readers_of(open_.stored_bytes, context_.ranks, context_.params.min_read);
  open_.first_reader = next_reader_;
  next_reader_ += open_.readers;
  windows_.push_back(std::move(open_));
  open_ = {};
}

void SpreadPart::append_steps(std::size_t round, std::vector<ReadStep>& steps) const {
  for (const Segment& segment : windows_[round].segments) {
    const bool rows = context_.tensors[segment.tensor].grain % context_.tensors[segment.tensor].row == 0;
    steps.push_back(
        {segment.tensor, rows ? 1 : most_boxes(context_.index.tensors[segment.tensor].shape.ndim())});
  }
}

std::uint64_t SpreadPart::cut(const Window& window, const Segment& segment, std::uint64_t i) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const std::uint64_t at = scale(window.stored_bytes, i, window.readers);
  if (at <= segment.stored_offset) return 0;
  const std::uint64_t element = (at - segment.stored_offset) / tensor.source_size;
  return element >= tensor.elements ? tensor.elements : element / tensor.grain * tensor.grain;
}

void SpreadPart::append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& /*blocks*/,
                        Round& out) const {
  const Window& window = windows_[round];
  const std::uint32_t world = world_group(context_, plan);
  const ReaderOrder order(plan.groups[world], context_.params.nodes);
  const std::uint64_t base = out.stage_bytes;
  out.stage_bytes += window.staged_bytes;
  FillItem fill;  // of the reader that comes next
  fill.kind = FillItem::Kind::broadcast;
  fill.group = world;
  fill.at = {Space::stage, base};
  out.unpacks.reserve(out.unpacks.size() + window.segments.size());
  out.spread.reserve(window.segments.size());
  std::uint64_t reader = 0;
  std::uint64_t root = order.member(window.first_reader);
  auto send = [&] {
    fill.peer = narrow<std::uint32_t>(root);
    if (fill.bytes != 0) out.fills.push_back(fill);
    fill.at.offset += fill.bytes;
    fill.bytes = 0;
    root = order.member(window.first_reader + ++reader);
  };
  for (const Segment& segment : window.segments) {
    const PlanTensor& tensor = context_.tensors[segment.tensor];
    const TensorMeta& meta = context_.index.tensors[segment.tensor];
    const std::uint64_t size = tensor.final_size;
    const std::uint32_t step = first_step++;
    const Place whole{Space::stage, base + segment.staged_offset};
    out.spread.push_back({segment.tensor, {0, tensor.elements}, whole.offset});
    const std::uint64_t segment_end = segment.stored_offset + tensor.stored_bytes();
    std::uint64_t begin = cut(window, segment, reader);
    for (;;) {
      const FlatRange range{begin, cut(window, segment, reader + 1)};
      if (!range.empty()) {
        if (fill.bytes == 0) fill.tensor = segment.tensor;
        fill.bytes += range.size() * size;
        if (root == plan.rank) {
          std::uint64_t offset = whole.offset + range.begin * size;
          for (Box& box : flat_boxes(meta.shape, range)) {
            const std::uint64_t bytes = box.elements() * size;
            append_read(context_, segment.tensor, step, std::move(box), {Space::stage, offset}, plan, out);
            offset += bytes;
          }
        }
      }
      // A reader may go on in the next segment.
      if (reader + 1 == window.readers ||
          scale(window.stored_bytes, reader + 1, window.readers) > segment_end) {
        break;
      }
      send();
      begin = range.end;
    }
    const ShardPlace& own = plan.shards[segment.tensor];
    for_each_block(own.box, own.blocks, [&](const Box& block, const Box& frame, std::uint64_t before) {
      out.unpacks.push_back({segment.tensor, block, whole, whole_box(meta.shape),
                             {Space::shard, own.offset + before * size}, frame});
    });
  }
  send();
}

}  // namespace slabload
