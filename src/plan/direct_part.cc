#include "plan/direct_part.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {
namespace {

constexpr std::uint64_t kEvenness = 64;  // parts are cut to 1/64 of their size or finer

}  // namespace

std::uint64_t DirectPart::sharers(const PlanTensor& tensor) {
  return tensor.fill || tensor.way == Way::reread ? 1 : tensor.replicas;
}

void DirectPart::prepare(const TensorMeta& meta, const PlanParams& params, std::uint64_t ranks, PlanTensor& tensor) {
  const std::uint64_t owners = sharers(tensor);
  const std::uint64_t part = ceil_div(tensor.cell, owners);
  // The parts of a piece are equal (an all-gather in place wants that), so the unit must be small against them.
  const std::uint64_t cap = std::min(params.round_bytes, (kItemLimit - 1) / owners) / tensor.widest();
  const std::uint64_t part_cap = std::max<std::uint64_t>(1, std::min(cap, part));
  tensor.grain = row_grain(tensor.lengths, std::max<std::uint64_t>(1, part_cap / (owners == 1 ? 1 : kEvenness)));
  if (meta.chunked() && ranks == 1) {
    const std::uint64_t band = scale(meta.chunk[0], tensor.row, 1);
    if (band < kItemLimit / tensor.widest()) tensor.grain = std::max<std::uint64_t>(1, band);  // decoded once
  }
  // As many equal pieces as the cap asks for, so that no piece is left over that is too small to be worth a request.
  const std::uint64_t most = std::max<std::uint64_t>(1, cap / tensor.grain) * tensor.grain;
  const std::uint64_t pieces = ceil_div(part, most);
  tensor.piece = align_up(ceil_div(part, pieces), tensor.grain) * owners;
}

void DirectPart::add(std::uint32_t t) {
  const PlanTensor& tensor = context_.tensors[t];
  std::uint64_t number = 0;
  for (std::uint64_t e = 0; e < tensor.cell; e += tensor.piece, ++number) {
    const std::uint64_t bytes =
        ceil_div(std::min(tensor.piece, tensor.cell - e), sharers(tensor)) * tensor.source_size;
    if (open_bytes_ != 0 && open_bytes_ + bytes > context_.params.round_bytes) close();
    open_.push_back({t, number});
    open_bytes_ += bytes;
  }
}

void DirectPart::close() {
  if (open_.empty()) return;
  rounds_.push_back(std::move(open_));
  open_ = {};
  open_bytes_ = 0;
}

void DirectPart::append_steps(std::size_t round, std::vector<ReadStep>& steps) const {
  for (const Piece& piece : rounds_[round]) {
    const PlanTensor& tensor = context_.tensors[piece.tensor];
    // Ranks whose cell has other inner lengths cut it at other places: then any part may be several boxes.
    const std::vector<int>& dims = tensor.layout.dims;
    const bool same_rows = std::all_of(dims.begin(), dims.end(), [](int d) { return d == 0 || d == -1; });
    std::uint64_t row = 1;
    for (std::size_t d = 1; d < tensor.lengths.size(); ++d) row *= tensor.lengths[d];
    const bool whole_rows = same_rows && tensor.layout.factors.empty() && row != 0 && tensor.grain % row == 0;
    steps.push_back({piece.tensor, whole_rows ? 1 : tensor.boxes});
  }
}

bool DirectPart::communicates(std::size_t round) const {
  if (context_.params.saving) return false;
  return std::any_of(rounds_[round].begin(), rounds_[round].end(),
                     [&](const Piece& piece) { return sharers(context_.tensors[piece.tensor]) > 1; });
}

void DirectPart::append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& /*blocks*/,
                        Round& out) const {
  out.reads.reserve(out.reads.size() + rounds_[round].size());
  for (const Piece& piece : rounds_[round]) append_piece(piece, first_step++, plan, out);
}

void DirectPart::append_piece(const Piece& piece, std::uint32_t step, LoadPlan& plan, Round& out) const {
  const PlanTensor& tensor = context_.tensors[piece.tensor];
  const ShardPlace& shard = plan.shards[piece.tensor];
  const std::uint64_t cell = shard.box.elements();
  const FlatRange range{piece.number * tensor.piece, std::min(cell, (piece.number + 1) * tensor.piece)};
  if (range.empty()) return;
  const std::uint64_t owners = sharers(tensor);
  const std::uint64_t part = align_up(ceil_div(range.size(), owners), tensor.grain);
  std::uint64_t member = 0;
  const auto group = static_cast<std::size_t>(plan.replicas[piece.tensor]);
  if (owners > 1) member = plan.groups[group].find(plan.rank).value();
  const FlatRange mine{std::min(range.end, range.begin + member * part),
                       std::min(range.end, range.begin + (member + 1) * part)};
  std::uint64_t offset = shard.offset + mine.begin * tensor.final_size;
  for (Box& box : shard_boxes(shard, mine)) {
    const std::uint64_t bytes = box.elements() * tensor.final_size;
    append_read(context_, piece.tensor, step, std::move(box), {Space::shard, offset}, plan, out);
    offset += bytes;
  }
  if (owners == 1 || context_.params.saving) return;
  FillItem fill;
  fill.kind = FillItem::Kind::all_gather;
  fill.tensor = piece.tensor;
  fill.group = narrow<std::uint32_t>(group);
  fill.at = {Space::shard, shard.offset + range.begin * tensor.final_size};
  fill.bytes = range.size() * tensor.final_size;
  fill.part = part * tensor.final_size;
  fill.range = range;
  out.fills.push_back(std::move(fill));
}

}  // namespace slabload
