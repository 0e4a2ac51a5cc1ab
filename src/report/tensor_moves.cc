#include "report/tensor_moves.h"

#include <algorithm>

namespace slabload {
namespace {

void add(TensorMoves::ByRank& to, std::uint64_t rank, std::uint64_t bytes) {
  TensorMoves::Traffic& traffic = to[rank];
  ++traffic.messages;
  traffic.bytes += bytes;
}

// Of a broadcast of staging, the bytes that belong to the tensor.
std::uint64_t bytes_of(const Round& round, const FillItem& fill, std::uint32_t number, std::uint64_t size) {
  std::uint64_t bytes = 0;
  for (const StagedPart& part : round.spread) {
    if (part.tensor != number) continue;
    const std::uint64_t from = std::max(part.offset, fill.at.offset);
    const std::uint64_t to = std::min(part.offset + part.range.size() * size, fill.at.offset + fill.bytes);
    bytes += from < to ? to - from : 0;
  }
  return bytes;
}

}  // namespace

TensorMoves TensorMoves::of(const LoadPlan& plan, std::uint32_t number) {
  TensorMoves m;
  const std::uint64_t size = dtype_size(plan.dtypes[number]);
  for (const Round& round : plan.rounds) {
    for (const ReadItem& read : round.reads) {
      if (read.tensor != number) continue;
      m.reads.push_back(read.box);
      m.read_bytes += read.box.elements() * size;
      m.requests += read.joined ? 0 : 1;
    }
    for (const FillItem& fill : round.fills) {
      if (fill.kind == FillItem::Kind::broadcast) {
        const bool spread = fill.at.space == Space::stage && !round.spread.empty();
        const std::uint64_t bytes = spread                  ? bytes_of(round, fill, number, size)
                                    : fill.tensor == number ? fill.bytes
                                                            : 0;
        if (bytes == 0) continue;
        const RankGroup& group = plan.groups[fill.group];
        if (const std::uint64_t root = group[fill.peer]; root != plan.rank) {
          add(m.broadcast_from, root, bytes);
        } else {
          m.broadcast_bytes += bytes;
          m.broadcast_group = group;
        }
        continue;
      }
      if (fill.tensor != number) continue;
      if (fill.kind == FillItem::Kind::all_gather) {
        m.gathered_bytes += received_bytes(plan, fill);
        m.gather_group = plan.groups[fill.group];
      } else {
        add(fill.kind == FillItem::Kind::send ? m.sent_to : m.received_from, fill.peer, fill.bytes);
      }
    }
  }
  return m;
}

}  // namespace slabload
