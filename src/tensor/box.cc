#include "tensor/box.h"

#include <fmt/format.h>

#include <algorithm>

namespace slabload {

std::uint64_t Box::elements() const {
  std::uint64_t product = 1;
  for (std::uint64_t e : extent) product *= e;
  return product;
}

std::string Box::text() const {
  std::string out = "[";
  for (std::size_t d = 0; d < ndim(); ++d) {
    out += fmt::format("{}{}:{}", d == 0 ? "" : ", ", start[d], start[d] + extent[d]);
  }
  return out + "]";
}

Box whole_box(const Shape& shape) {
  return {Dims(shape.ndim(), 0), shape.lengths()};
}

Box intersect(const Box& a, const Box& b) {
  Box out{Dims(a.ndim(), 0), Dims(a.ndim(), 0)};
  for (std::size_t d = 0; d < a.ndim(); ++d) {
    std::uint64_t begin = std::max(a.start[d], b.start[d]);
    std::uint64_t end = std::min(a.start[d] + a.extent[d], b.start[d] + b.extent[d]);
    out.start[d] = begin;
    out.extent[d] = end > begin ? end - begin : 0;
  }
  return out;
}

namespace {

// Appends the boxes of `range` within dimensions d.. of `lengths`, with dimensions 0..d-1 fixed in `prefix`.
void append_boxes(const Dims& lengths, std::size_t d, FlatRange range, Dims& prefix, std::vector<Box>& out) {
  if (range.empty()) return;
  std::size_t ndim = lengths.size();
  std::uint64_t inner = 1;
  for (std::size_t i = d + 1; i < ndim; ++i) inner *= lengths[i];
  auto emit = [&](std::uint64_t row, std::uint64_t rows) {
    Box box{Dims(ndim, 0), Dims(ndim, 1)};
    for (std::size_t i = 0; i < d; ++i) box.start[i] = prefix[i];
    box.start[d] = row;
    box.extent[d] = rows;
    for (std::size_t i = d + 1; i < ndim; ++i) box.extent[i] = lengths[i];
    out.push_back(std::move(box));
  };
  std::uint64_t first = range.begin / inner;
  std::uint64_t last = range.end / inner;
  std::uint64_t head = range.begin % inner;
  std::uint64_t tail = range.end % inner;
  auto descend = [&](std::uint64_t row, FlatRange part) {
    prefix[d] = row;
    append_boxes(lengths, d + 1, part, prefix, out);
  };
  if (first == last) {
    descend(first, {head, tail});
    return;
  }
  if (head != 0) {
    descend(first, {head, inner});
    ++first;
  }
  if (last > first) emit(first, last - first);
  if (tail != 0) descend(last, {0, tail});
}

}  // namespace

std::vector<Box> flat_boxes(const Shape& shape, FlatRange range) {
  std::vector<Box> out;
  if (range.empty()) return out;
  if (shape.ndim() == 0) {
    out.push_back(Box{});
    return out;
  }
  Dims prefix(shape.ndim(), 0);
  append_boxes(shape.lengths(), 0, range, prefix, out);
  return out;
}

std::vector<Box> flat_boxes_in(const Box& outer, FlatRange range) {
  std::vector<Box> boxes = flat_boxes(Shape(outer.extent), range);
  for (Box& box : boxes) {
    for (std::size_t d = 0; d < box.ndim(); ++d) box.start[d] += outer.start[d];
  }
  return boxes;
}

std::uint64_t flat_index(const Shape& shape, const Dims& at) {
  std::uint64_t index = 0;
  for (std::size_t d = 0; d < shape.ndim(); ++d) index = index * shape[d] + at[d];
  return index;
}

std::uint64_t elements_before(const Shape& shape, const Box& box, std::uint64_t flat) {
  if (flat >= shape.elements()) return box.elements();
  std::uint64_t count = 0;
  std::uint64_t rest = shape.elements();  // of the shape below the dimensions that have been looked at
  std::uint64_t inner = box.elements();   // of the box
  if (inner == 0) return 0;
  for (std::size_t d = 0; d < shape.ndim(); ++d) {
    rest /= shape[d];
    inner /= box.extent[d];
    const std::uint64_t at = flat / rest;
    flat %= rest;
    if (at < box.start[d]) return count;
    count += std::min(at - box.start[d], box.extent[d]) * inner;
    if (at - box.start[d] >= box.extent[d]) return count;
  }
  return count;
}

RunPattern runs_of(const Shape& shape, const Box& box) {
  // The run covers every trailing dimension the box takes whole, and the first one it does not.
  std::size_t d = shape.ndim();
  RunPattern runs{1, 1, 0};
  while (d > 0) {
    --d;
    runs.length *= box.extent[d];
    if (box.extent[d] != shape[d]) break;
  }
  runs.outer = d;
  for (std::size_t i = 0; i < d; ++i) runs.count *= box.extent[i];
  if (runs.length == 0) runs.count = 0;
  return runs;
}

std::optional<std::uint64_t> run_position(const Box& box, const Box& frame) {
  std::uint64_t position = 0;
  bool partial = false;  // some dimension further in is not taken whole
  std::uint64_t step = 1;
  for (std::size_t d = box.ndim(); d-- > 0;) {
    const std::uint64_t start = box.start[d] - frame.start[d];
    if (start > frame.extent[d] || box.extent[d] > frame.extent[d] - start) return std::nullopt;
    if (partial && box.extent[d] != 1) return std::nullopt;
    partial = partial || box.extent[d] != frame.extent[d];
    position += start * step;
    step *= frame.extent[d];
  }
  return position;
}

}  // namespace slabload
