// Moving a box between dense buffers of different extents.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/box.h"
#include "tensor/relayout_body.h"

namespace slabload {

// How the elements of `box` (global coordinates) move from a dense buffer that holds `from_box` to one that
// holds `to_box`; box lies within both. Runs are as long, and dimensions as few, as they can be.
Relayout make_relayout(std::uint32_t element_size, const Box& box, const Box& from_box, const Box& to_box);

// Calls visit(RunPlace) for every run in order.
template <typename Visit>
void for_each_run(const Relayout& layout, Visit&& visit) {
  std::uint64_t at[Relayout::kMost] = {};
  RunPlace place{layout.from_offset, layout.to_offset};
  for (std::uint64_t i = 0; i < layout.runs; ++i) {
    visit(place);
    for (std::uint32_t d = layout.ndim; d-- > 0;) {
      place.from += layout.from_step[d];
      place.to += layout.to_step[d];
      if (++at[d] < layout.extent[d]) break;
      place.from -= at[d] * layout.from_step[d];
      place.to -= at[d] * layout.to_step[d];
      at[d] = 0;
    }
  }
}

// Moves all runs, in this process's memory.
void relayout(const Relayout& layout, const std::byte* from, std::byte* to);

}  // namespace slabload
