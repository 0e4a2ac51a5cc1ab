#include "tensor/box_checksum.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/crc64.h"
#include "base/narrow.h"
#include "tensor/relayout.h"

namespace slabload {
namespace {

// A thread's last step, the shift to its place, costs as much as some hundred rows.
constexpr std::uint64_t kLeastRows = 64;
constexpr std::uint64_t kMostLanes = 32;

}  // namespace

std::uint64_t box_checksum(const Shape& shape, const Box& box, std::uint32_t element_size, const void* data) {
  std::uint64_t total = shape.elements() * element_size;
  const auto* bytes = static_cast<const unsigned char*>(data);
  Relayout layout = make_relayout(element_size, box, whole_box(shape), box);
  // Runs that follow each other at the same distance are summed up with one factor; only their end is
  // shifted.
  std::uint64_t rows = layout.ndim == 0 ? 1 : layout.extent[layout.ndim - 1];
  std::array<std::uint64_t, kCrc64Entries> table{};
  if (rows > 1) {
    Crc64Factor step = make_crc64_factor(crc64_shift(kCrc64One, layout.from_step[layout.ndim - 1]));
    for (std::uint32_t i = 0; i < table.size(); ++i) table[i] = crc64_entry(step, i);
  }
  std::uint64_t sum = 0;
  std::uint64_t crc = 0;
  std::uint64_t row = 0;
  for_each_run(layout, [&](RunPlace place) {
    crc = crc64_multiply_by_table(table.data(), 1, crc) ^ crc64_part(bytes + place.to, layout.run_bytes);
    if (++row < rows) return;
    sum ^= crc64_shift(crc, total - place.from - layout.run_bytes);
    crc = row = 0;
  });
  return sum;
}

BoxCrc make_box_crc(const Shape& shape, const Box& box, std::uint32_t element_size, std::uint64_t threads) {
  BoxCrc out{};
  Relayout layout = make_relayout(element_size, box, whole_box(shape), box);
  if (layout.runs == 0) return out;
  out.powers = crc64_powers();
  out.bytes = layout.runs * layout.run_bytes;
  out.ndim = layout.ndim;
  std::uint64_t end = layout.from_offset + layout.run_bytes;
  for (std::uint32_t d = 0; d < layout.ndim; ++d) {
    out.extent[d] = layout.extent[d];
    out.group_step[d] = layout.from_step[d];
    end += (layout.extent[d] - 1) * layout.from_step[d];
  }
  out.tail = shape.elements() * element_size - end;

  // Lines run along long runs, or across short ones.
  std::uint64_t run_rows = ceil_div(layout.run_bytes, 8 * kMostLanes);
  if (layout.ndim == 0 || run_rows >= layout.extent[layout.ndim - 1]) {
    out.group_bytes = layout.run_bytes;
    out.rows = run_rows;
    out.row_bytes = out.row_step = 8 * kMostLanes;
    out.first_row_bytes = layout.run_bytes - (run_rows - 1) * out.row_bytes;
  } else {
    --out.ndim;
    out.rows = layout.extent[out.ndim];
    out.row_bytes = out.first_row_bytes = layout.run_bytes;
    out.row_step = layout.from_step[out.ndim];
    out.group_bytes = out.rows * out.row_bytes;
  }
  out.step = make_crc64_factor(crc64_shift(kCrc64One, out.row_step));

  std::uint64_t words = ceil_div(out.row_bytes, 8);
  out.lanes = narrow<std::uint32_t>(std::min(kMostLanes, std::bit_ceil(words)));
  out.columns = ceil_div(words, out.lanes);
  std::uint64_t groups = out.bytes / out.group_bytes;
  std::uint64_t steps = groups * out.rows * out.columns * out.lanes;
  out.line_rows = std::min(out.rows, std::max(kLeastRows, steps / std::max<std::uint64_t>(threads, 1)));
  out.blocks = ceil_div(out.rows, out.line_rows);
  out.lines = groups * out.blocks * out.columns;
  return out;
}

}  // namespace slabload
