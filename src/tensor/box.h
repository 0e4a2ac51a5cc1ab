// A box: a dense rectangular part of a tensor, in elements. In HDF5 terms a hyperslab of one block.
#pragma once

#include <optional>
#include <vector>

#include "tensor/shape.h"

namespace slabload {

struct Box {
  Dims start;   // first element per dimension
  Dims extent;  // elements per dimension; any zero makes the box empty

  std::size_t ndim() const { return start.size(); }
  std::uint64_t elements() const;
  bool empty() const { return elements() == 0; }
  bool operator==(const Box& other) const { return start == other.start && extent == other.extent; }
  // "[0:4, 128:256]" (start:end per dimension), "[]" for 0-d.
  std::string text() const;
};

// The whole tensor.
Box whole_box(const Shape& shape);

// The common part; empty (some extent 0) if there is none. Both have the same ndim.
Box intersect(const Box& a, const Box& b);

// A half-open range of a flattened shape, in elements.
struct FlatRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// The boxes that make up a flat range of `shape`, in flat order, at most 2*ndim-1 of them. A box is
// contiguous in the flattened shape, and the boxes follow each other without a gap. A 0-d shape gives one 0-d
// box.
std::vector<Box> flat_boxes(const Shape& shape, FlatRange range);

// The part of `outer` that the flat range of `outer` (numbered within it) covers, as boxes in the coordinates
// of the tensor that `outer` lies in.
std::vector<Box> flat_boxes_in(const Box& outer, FlatRange range);

// The flat index of coordinate `at` in a shape.
std::uint64_t flat_index(const Shape& shape, const Dims& at);

// How many elements of a box lie before element `flat` of the flattened shape.
std::uint64_t elements_before(const Shape& shape, const Box& box, std::uint64_t flat);

// The contiguous runs of a box in the flattened tensor: each `length` elements long, `count` of them. The
// first starts at flat_index(shape, box.start). One run means the box is contiguous in the file.
struct RunPattern {
  std::uint64_t length;
  std::uint64_t count;
  std::size_t outer;  // dimensions 0..outer-1 step from run to run; the rest lies inside a run
};
RunPattern runs_of(const Shape& shape, const Box& box);

// Of `box` within the dense buffer that holds `frame` (whose start counts modulo 2^64): its first element's position,
// or nothing if it is not one run there.
std::optional<std::uint64_t> run_position(const Box& box, const Box& frame);

// Calls visit(flat_begin, length) for every run of the box, in flat order.
template <typename Visit>
void for_each_run(const Shape& shape, const Box& box, Visit&& visit) {
  RunPattern runs = runs_of(shape, box);
  if (runs.length == 0 || runs.count == 0) return;
  Dims at = box.start;
  for (std::uint64_t i = 0; i < runs.count; ++i) {
    visit(flat_index(shape, at), runs.length);
    for (std::size_t d = runs.outer; d-- > 0;) {
      if (++at[d] < box.start[d] + box.extent[d]) break;
      at[d] = box.start[d];
    }
  }
}

}  // namespace slabload
