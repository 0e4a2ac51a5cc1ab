#include "layout/shard.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/narrow.h"
#include "layout/runs.h"

namespace slabload {
namespace {

using RunLists = boost::container::small_vector<Runs, 4>;

RunLists whole_runs(const Shape& shape) {
  RunLists out;
  for (std::size_t d = 0; d < shape.ndim(); ++d) {
    out.emplace_back();
    if (shape[d] != 0) out.back().push_back({0, shape[d]});
  }
  return out;
}

// Calls visit(which run of each dimension) for all combinations, the last dimension fastest; none of the
// lists is empty.
template <typename Visit>
void for_each_combination(const RunLists& runs, Visit&& visit) {
  boost::container::small_vector<std::size_t, 4> which(runs.size(), 0);
  while (true) {
    visit(which);
    std::size_t d = runs.size();
    while (d > 0 && ++which[d - 1] == runs[d - 1].size()) which[--d] = 0;
    if (d == 0) return;
  }
}

template <typename Which>
Box box_of(const RunLists& runs, const Which& which) {
  Box box{Dims(runs.size(), 0), Dims(runs.size(), 0)};
  for (std::size_t d = 0; d < runs.size(); ++d) {
    box.start[d] = runs[d][which[d]].start;
    box.extent[d] = runs[d][which[d]].extent;
  }
  return box;
}

bool is_empty(const RunLists& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const Runs& list) { return list.empty(); });
}

Shard shard_of(const Shape& shape, const RunLists& runs) {
  Shard shard;
  const std::size_t ndim = shape.ndim();
  shard.box = {Dims(ndim, 0), Dims(ndim, 0)};
  bool one = true;
  for (std::size_t d = 0; d < ndim; ++d) {
    shard.box.extent[d] = length_of(runs[d]);
    one = one && runs[d].size() <= 1;
  }
  if (one || is_empty(runs)) {
    for (std::size_t d = 0; d < ndim; ++d)
      shard.box.start[d] = runs[d].empty() || runs[d].size() > 1 ? shape[d] : runs[d][0].start;
    return shard;
  }
  // Stacked: only dimensions of one index lie before the one that is cut into runs.
  std::size_t first = 0;
  while (shard.box.extent[first] == 1) ++first;
  bool stacked = true;
  for (std::size_t d = first + 1; d < ndim; ++d) stacked = stacked && runs[d].size() == 1;
  RunLists before = runs;  // the start of each run in the shard
  for (Runs& list : before) {
    std::uint64_t at = 0;
    for (Run& run : list) {
      run.start = at;
      at += run.extent;
    }
  }
  std::uint64_t elements = 0;
  for_each_combination(runs, [&](const auto& which) {
    ShardBlock block;
    block.box = box_of(runs, which);
    if (stacked) {
      block.frame = block.box;
      block.offset = elements;
      elements += block.box.elements();
    } else {
      block.frame = {block.box.start, shard.box.extent};
      for (std::size_t d = 0; d < ndim; ++d) block.frame.start[d] -= before[d][which[d]].start;
    }
    shard.blocks.push_back(std::move(block));
  });
  return shard;
}

std::size_t flat_axis(const TensorLayout& layout) {
  return static_cast<std::size_t>(std::find(layout.dims.begin(), layout.dims.end(), TensorLayout::kFlat) -
                                  layout.dims.begin());
}

// Elements of the tensor that part `part` of the flattened whole holds.
FlatRange flat_part(const TensorLayout& layout, std::uint64_t elements, std::uint64_t parts,
                    std::uint64_t part) {
  ChunkSpan span = torch_chunk({0, layout.flat_total}, parts, part);
  auto within = [&](std::uint64_t at) {
    return std::clamp(at, layout.flat_before, layout.flat_before + elements) - layout.flat_before;
  };
  return {within(span.start), within(span.start + span.extent)};
}

Shard flat_shard(const Shape& shape, FlatRange range) {
  Shard shard;
  shard.flat = true;
  if (range.empty()) {
    shard.box = {shape.lengths(), Dims(shape.ndim(), 0)};
    return shard;
  }
  std::vector<Box> boxes = flat_boxes(shape, range);
  if (boxes.size() == 1) {
    shard.box = std::move(boxes[0]);
    return shard;
  }
  shard.box = {Dims{0}, Dims{range.size()}};
  std::uint64_t elements = 0;
  for (Box& box : boxes) {
    std::uint64_t count = box.elements();
    shard.blocks.push_back({box, box, elements});
    elements += count;
  }
  return shard;
}

bool plain(const TensorLayout& layout) {
  return layout.factors.empty() && !layout.flat();
}

// Calls visit(axis) for the mesh axes that cut the tensor, in the order in which they do.
template <typename Visit>
void for_each_cut(const Mesh& mesh, const TensorLayout& layout, Visit&& visit) {
  for (std::size_t i = 0; i < mesh.ndim(); ++i) {
    std::size_t axis = layout.order.empty() ? i : layout.order[i];
    if (layout.dims[axis] >= 0) visit(axis);
  }
}

}  // namespace

Box local_box(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Dims& coordinate) {
  Box box = whole_box(shape);
  for_each_cut(mesh, layout, [&](std::size_t axis) {
    auto d = static_cast<std::size_t>(layout.dims[axis]);
    ChunkSpan part = torch_chunk({box.start[d], box.extent[d]}, mesh.axis(axis).size, coordinate[axis]);
    box.start[d] = part.start;
    box.extent[d] = part.extent;
  });
  // DTensor gives an empty shard the dimension's full length as its offset, also where an inner axis left it
  // empty.
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    if (box.extent[d] == 0) box.start[d] = shape[d];
  }
  return box;
}

Shard local_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Dims& coordinate) {
  if (plain(layout)) return {local_box(shape, mesh, layout, coordinate), {}, false};
  if (layout.flat()) {
    std::size_t axis = flat_axis(layout);
    return flat_shard(shape, flat_part(layout, shape.elements(), mesh.axis(axis).size, coordinate[axis]));
  }
  RunLists runs = whole_runs(shape);
  for_each_cut(mesh, layout, [&](std::size_t axis) {
    auto d = static_cast<std::size_t>(layout.dims[axis]);
    std::uint64_t factor = layout.factors[axis];
    runs[d] = split(runs[d], factor, mesh.axis(axis).size, coordinate[axis]);
  });
  return shard_of(shape, runs);
}

std::uint64_t largest_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout) {
  if (layout.flat()) {
    const std::uint64_t own = shape.elements();
    if (own == 0) return 0;
    const std::uint64_t step = ceil_div(layout.flat_total, mesh.axis(flat_axis(layout)).size);
    const std::uint64_t head = std::min(own, step - layout.flat_before % step);  // of the first part it is in
    return std::max(head, std::min(step, own - head));
  }
  if (plain(layout)) return local_box(shape, mesh, layout, Dims(mesh.ndim(), 0)).elements();
  // A longer list may have a shorter largest part: 4 indices in 3 chunks for 4 ranks give at most 2, 3
  // give 3.
  std::vector<std::set<std::uint64_t>> lengths(shape.ndim());
  for (std::size_t d = 0; d < shape.ndim(); ++d) lengths[d].insert(shape[d]);
  for_each_cut(mesh, layout, [&](std::size_t axis) {
    auto& of = lengths[static_cast<std::size_t>(layout.dims[axis])];
    std::set<std::uint64_t> cut;
    for (std::uint64_t length : of)
      append_part_lengths(length, layout.factors[axis], mesh.axis(axis).size, cut);
    of = std::move(cut);
  });
  std::uint64_t product = 1;
  for (const auto& of : lengths) product *= *of.rbegin();
  return product;
}

std::uint32_t replica_mask(const Mesh& mesh, const TensorLayout& layout) {
  std::uint32_t mask = 0;
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if (layout.dims[axis] == -1 && mesh.axis(axis).size > 1) mask |= std::uint32_t{1} << axis;
  }
  return mask;
}

namespace {

using Visitor = std::function<void(const Dims&, const Box&)>;

// The first element of a box at or behind element `at` of the flattened shape, or nothing.
std::optional<std::uint64_t> next_in(const Shape& shape, const Box& box, std::uint64_t at) {
  const std::size_t ndim = shape.ndim();
  Dims to(ndim, 0);
  for (std::size_t d = ndim; d-- > 0; at /= shape[d]) to[d] = at % shape[d];
  auto end = [&](std::size_t d) { return box.start[d] + box.extent[d]; };
  std::size_t d = 0;
  while (d < ndim && to[d] >= box.start[d] && to[d] < end(d)) ++d;
  if (d == ndim) return flat_index(shape, to);
  if (to[d] >= end(d)) {
    // On to the next index of the nearest dimension further out that has one.
    while (d > 0 && to[d - 1] + 1 == end(d - 1)) --d;
    if (d == 0) return std::nullopt;
    ++to[d - 1];
  }
  for (; d < ndim; ++d) to[d] = box.start[d];
  return flat_index(shape, to);
}

// Down the mesh axes, always only into the parts that meet `within`.
struct ShardWalk {
  const Mesh& mesh;
  const TensorLayout& layout;
  const Box& within;
  const Visitor& visit;
  boost::container::small_vector<std::size_t, 4> cuts;  // axes
  Dims coordinate;

  // Plain layouts: a shard is one box.
  void descend(std::size_t i, const Box& box) {
    if (i == cuts.size()) {
      if (const Box met = intersect(box, within); !met.empty()) visit(coordinate, met);
      return;
    }
    std::size_t axis = cuts[i];
    auto d = static_cast<std::size_t>(layout.dims[axis]);
    ChunkSpan whole{box.start[d], box.extent[d]};
    std::uint64_t begin = std::max(whole.start, within.start[d]);
    std::uint64_t end = std::min(whole.start + whole.extent, within.start[d] + within.extent[d]);
    if (begin >= end) return;
    std::uint64_t parts = mesh.axis(axis).size;
    std::uint64_t step = ceil_div(whole.extent, parts);
    for (std::uint64_t part = (begin - whole.start) / step; part <= (end - 1 - whole.start) / step; ++part) {
      ChunkSpan span = torch_chunk(whole, parts, part);
      Box inner = box;
      inner.start[d] = span.start;
      inner.extent[d] = span.extent;
      coordinate[axis] = part;
      descend(i + 1, inner);
    }
    coordinate[axis] = 0;
  }

  void descend(std::size_t i, const boost::container::small_vector<RunsWithin, 4>& lists) {
    if (i == cuts.size()) {
      RunLists runs;
      for (const RunsWithin& list : lists) runs.push_back(list.runs);
      for_each_combination(runs, [&](const auto& which) { visit(coordinate, box_of(runs, which)); });
      return;
    }
    std::size_t axis = cuts[i];
    auto d = static_cast<std::size_t>(layout.dims[axis]);
    std::uint64_t parts = mesh.axis(axis).size;
    for (std::uint64_t part : parts_that_meet(lists[d], layout.factors[axis], parts)) {
      auto inner = lists;
      inner[d] = split(lists[d], layout.factors[axis], parts, part);
      coordinate[axis] = part;
      descend(i + 1, inner);
    }
    coordinate[axis] = 0;
  }

  // `within` may be several runs of the flattened tensor, and most parts lie between them.
  void flat(const Shape& shape) {
    std::size_t axis = flat_axis(layout);
    std::uint64_t parts = mesh.axis(axis).size;
    std::uint64_t step = ceil_div(layout.flat_total, parts);
    std::optional<std::uint64_t> at = flat_index(shape, within.start);
    while (at) {
      const std::uint64_t part = (layout.flat_before + *at) / step;
      const FlatRange range = flat_part(layout, shape.elements(), parts, part);
      coordinate[axis] = part;
      for (const Box& box : flat_boxes(shape, range)) {
        if (const Box met = intersect(box, within); !met.empty()) visit(coordinate, met);
      }
      at = range.end < shape.elements() ? next_in(shape, within, range.end) : std::nullopt;
    }
    coordinate[axis] = 0;
  }
};

}  // namespace

void for_each_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Box& within,
                    const Visitor& visit) {
  if (within.empty()) return;
  ShardWalk walk{mesh, layout, within, visit, {}, Dims(mesh.ndim(), 0)};
  if (layout.flat()) return walk.flat(shape);
  for_each_cut(mesh, layout, [&](std::size_t axis) { walk.cuts.push_back(axis); });
  if (plain(layout)) return walk.descend(0, whole_box(shape));
  boost::container::small_vector<RunsWithin, 4> lists;
  for (std::size_t d = 0; d < shape.ndim(); ++d)
    lists.push_back(runs_within(shape[d], within.start[d], within.start[d] + within.extent[d]));
  walk.descend(0, lists);
}

}  // namespace slabload
