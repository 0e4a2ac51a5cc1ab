// The windows of an exchange: how tensors fill them, as far as every rank's staging holds what they need.
#include <algorithm>

#include "base/narrow.h"
#include "plan/exchange_part.h"

namespace slabload {
namespace {

constexpr std::uint64_t kGrainBytes = 16 << 10;  // cuts between readers of a window lie at multiples of it

// Extents are cut at stripes where that leaves them even; two stripes at least, where the user asks for wide extents.
bool worth_aligning(std::uint64_t window_bytes, std::uint64_t ranks, const PlanParams& params) {
  const std::uint64_t stripes = params.strategy == "linear" ? 2 : 32;
  return params.align != 0 && window_bytes / ranks / stripes >= params.align;
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
    open_.segments.push_back({t, {e, e + count}, open_.bytes, segments_++});
    open_.headed += tensor.headed() && !context_.params.saving ? 1 : 0;
    open_.bytes += count * tensor.source_size;
    need_ = need_.with(tensor, count);
    e += count;  // what is left of the tensor begins another segment, of the next window if this one is full
  }
}

void ExchangePart::close() {
  if (open_.segments.empty()) return;
  // Heads pass on what came in a round that has certainly ended.
  rounds_ = std::max(rounds_, windows_.size() + 1 + (open_.headed == 0 ? 0 : context_.split.rounds));
  windows_.push_back(std::move(open_));
  open_ = {};
  need_ = {};
}

const ExchangePart::Window* ExchangePart::shared_in(std::size_t round) const {
  if (round < context_.split.rounds || round - context_.split.rounds >= windows_.size()) return nullptr;
  const Window& window = windows_[round - context_.split.rounds];
  return window.headed == 0 ? nullptr : &window;
}

bool ExchangePart::aligned(const Window& window) const {
  return worth_aligning(window.bytes, context_.ranks, context_.params);
}

}  // namespace slabload
