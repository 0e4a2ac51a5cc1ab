#include "plan/relay_part.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {
namespace {

// The most that an owner reads of a window, where reads must be large to be worth it: below the limit of an item in any final
// type, and with a row of chunks that it ends in.
constexpr std::uint64_t kLargestStretch = kItemLimit / 8;

}  // namespace

void RelayPart::prepare(PlanTensor& tensor) {
  tensor.grain = row_grain(tensor.lengths, std::max<std::uint64_t>(1, kCutBytes / tensor.source_size));
  if (tensor.band != 0) tensor.grain = tensor.band;
}

// The most that an owner reads of a window.
std::uint64_t RelayPart::stretch() const {
  const std::uint64_t worth = std::max(context_.params.min_read, kStretchBytes);
  return std::max<std::uint64_t>(1, std::min({kLargestStretch, context_.params.round_bytes, worth}));
}

void RelayPart::add(std::uint32_t t) {
  const PlanTensor& tensor = context_.tensors[t];
  const std::uint64_t most = scale(stretch(), tensor.replicas, 1);
  for (std::uint64_t e = 0; e < tensor.cell;) {
    Window& window = open_[tensor.mask];
    std::uint64_t room = (most - std::min(most, window.bytes)) / tensor.source_size / tensor.grain * tensor.grain;
    if (room == 0 && window.bytes == 0) room = tensor.grain;
    if (room == 0) {
      close(tensor.mask, window);
      continue;
    }
    const std::uint64_t count = std::min(room, tensor.cell - e);
    window.replicas = tensor.replicas;
    window.segments.push_back({t, {e, e + count}, window.bytes});
    window.bytes += count * tensor.source_size;
    e += count;
  }
}

void RelayPart::close(std::uint32_t mask, Window& window) {
  if (window.segments.empty()) return;
  const std::uint64_t needed = std::min(window.replicas, ceil_div(window.bytes, stretch()));
  window.readers = std::max(readers_of(window.bytes, window.replicas, context_.params.min_read), needed);
  window.first_reader = next_reader_[mask];
  next_reader_[mask] += window.readers;
  windows_.push_back(std::move(window));
  window = {};
}

void RelayPart::close() {
  for (auto& [mask, window] : open_) close(mask, window);
}

void RelayPart::append_steps(std::size_t round, std::vector<ReadStep>& steps) const {
  const Window& window = windows_[round];
  for (const Segment& segment : window.segments) {
    const PlanTensor& tensor = context_.tensors[segment.tensor];
    steps.push_back({segment.tensor, tensor.boxes});
  }
}

std::uint64_t RelayPart::cut(const Window& window, const Segment& segment, std::uint64_t i) const {
  const PlanTensor& tensor = context_.tensors[segment.tensor];
  const std::uint64_t at = scale(window.bytes, i, window.readers);
  if (at <= segment.window_offset) return segment.range.begin;
  const std::uint64_t inside = at - segment.window_offset;
  if (inside >= segment.range.size() * tensor.source_size) return segment.range.end;
  const std::uint64_t element = segment.range.begin + inside / tensor.source_size;
  return std::max(segment.range.begin, element / tensor.grain * tensor.grain);
}

void RelayPart::append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& /*blocks*/,
                       Round& out) const {
  const Window& window = windows_[round];
  const auto group_number = static_cast<std::size_t>(plan.replicas[window.segments.front().tensor]);
  const RankGroup& group = plan.groups[group_number];
  const ReaderOrder order(group, context_.params.nodes);
  // Groups begin with different members, so that all ranks read alike where only some members do.
  const std::uint32_t mask = context_.tensors[window.segments.front().tensor].mask;
  const std::uint64_t first = window.first_reader + group_index(context_.layout.mesh(), mask, plan.rank);
  std::uint64_t reader = 0;
  for (const Segment& segment : window.segments) {
    const PlanTensor& tensor = context_.tensors[segment.tensor];
    const ShardPlace& shard = plan.shards[segment.tensor];
    const std::uint64_t cell = shard.box.elements();
    const std::uint32_t step = first_step++;
    const std::uint64_t segment_end = segment.window_offset + segment.range.size() * tensor.source_size;
    for (;; ++reader) {
      const FlatRange range{std::min(cut(window, segment, reader), cell),
                            std::min(cut(window, segment, reader + 1), cell)};
      if (!range.empty()) {
        FillItem fill;
        fill.kind = FillItem::Kind::broadcast;
        fill.tensor = segment.tensor;
        fill.group = narrow<std::uint32_t>(group_number);
        fill.peer = narrow<std::uint32_t>(order.member(first + reader));
        fill.at = {Space::shard, shard.offset + range.begin * tensor.final_size};
        fill.bytes = range.size() * tensor.final_size;
        fill.range = range;
        if (group[fill.peer] == plan.rank) {
          std::uint64_t offset = fill.at.offset;
          for (Box& box : shard_boxes(shard, range)) {
            const std::uint64_t bytes = box.elements() * tensor.final_size;
            append_read(context_, segment.tensor, step, std::move(box), {Space::shard, offset}, plan, out);
            offset += bytes;
          }
        }
        out.fills.push_back(std::move(fill));
      }
      // A reader may go on in the next segment.
      if (reader + 1 == window.readers || scale(window.bytes, reader + 1, window.readers) > segment_end) break;
    }
  }
}

}  // namespace slabload
