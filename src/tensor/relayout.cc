#include "tensor/relayout.h"

#include <cstring>
#include <utility>

namespace slabload {
namespace {

// Puts one more dimension outside of those that `layout` has, which are innermost first. It joins the run or
// the dimension before it where both buffers go on without a gap.
void add_dimension(Relayout& layout, std::uint64_t extent, std::uint64_t from_step, std::uint64_t to_step) {
  if (layout.ndim == 0) {
    if (from_step == layout.run_bytes && to_step == layout.run_bytes) {
      layout.run_bytes *= extent;
      return;
    }
  } else {
    std::uint32_t last = layout.ndim - 1;
    std::uint64_t& length = layout.extent[last];
    if (from_step == length * layout.from_step[last] && to_step == length * layout.to_step[last]) {
      length *= extent;
      return;
    }
  }
  layout.extent[layout.ndim] = extent;
  layout.from_step[layout.ndim] = from_step;
  layout.to_step[layout.ndim] = to_step;
  ++layout.ndim;
}

}  // namespace

Relayout make_relayout(std::uint32_t element_size, const Box& box, const Box& from_box, const Box& to_box) {
  Relayout layout{};
  layout.runs = 1;
  layout.run_bytes = element_size;
  if (box.empty()) {
    layout.runs = 0;
    return layout;
  }
  std::uint64_t from_step = element_size;
  std::uint64_t to_step = element_size;
  for (std::size_t d = box.ndim(); d-- > 0;) {
    std::uint64_t extent = box.extent[d];
    layout.from_offset += (box.start[d] - from_box.start[d]) * from_step;
    layout.to_offset += (box.start[d] - to_box.start[d]) * to_step;
    if (extent > 1) add_dimension(layout, extent, from_step, to_step);
    from_step *= from_box.extent[d];
    to_step *= to_box.extent[d];
  }
  // The outermost first.
  for (std::uint32_t i = 0, j = layout.ndim; i + 1 < j; ++i) {
    --j;
    std::swap(layout.extent[i], layout.extent[j]);
    std::swap(layout.from_step[i], layout.from_step[j]);
    std::swap(layout.to_step[i], layout.to_step[j]);
  }
  for (std::uint32_t d = 0; d < layout.ndim; ++d) layout.runs *= layout.extent[d];
  return layout;
}

void relayout(const Relayout& layout, const std::byte* from, std::byte* to) {
  for_each_run(layout,
               [&](RunPlace place) { std::memcpy(to + place.to, from + place.from, layout.run_bytes); });
}

}  // namespace slabload
