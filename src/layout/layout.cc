#include "layout/layout.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/glob.h"
#include "base/narrow.h"

namespace slabload {

Placement Placement::parse(std::string_view text) {
  if (text == "R") return {Kind::replicate, 0};
  if (text.size() > 3 && text.substr(0, 2) == "S(" && text.back() == ')') {
    std::string_view number = text.substr(2, text.size() - 3);
    std::int64_t dim = 0;
    auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), dim);
    if (code == std::errc() && end == number.data() + number.size()) return {Kind::shard, dim};
  }
  if (!text.empty() && text.front() == 'P') {
    fail(Status::usage,
         "placement '{}': a checkpoint holds values, not summands, so Partial cannot be loaded",
         printable(text));
  }
  fail(Status::usage, "placement '{}' is not R or S(dim)", printable(text));
}

std::string Placement::text() const {
  return kind == Kind::replicate ? "R" : fmt::format("S({})", dim);
}

ChunkSpan torch_chunk(ChunkSpan whole, std::uint64_t parts, std::uint64_t part) {
  std::uint64_t step = ceil_div(whole.extent, parts);
  // part * step passes the end for late, empty parts, and 2^64 for absurd lengths.
  unsigned __int128 at = static_cast<unsigned __int128>(step) * part;
  std::uint64_t begin = at < whole.extent ? static_cast<std::uint64_t>(at) : whole.extent;
  return {whole.start + begin, std::min(step, whole.extent - begin)};
}

Layout Layout::preset(const std::string& name, const Mesh& mesh) {
  Layout layout(name, mesh);
  layout.is_preset_ = true;
  LayoutRule rule;
  rule.placements.assign(mesh.ndim(), Placement{});
  if (name == "fsdp2" || name == "hsdp") {
    auto shard_axis = mesh.find("dp_shard");
    if (!shard_axis) {
      fail(Status::usage, "--layout {} needs a mesh axis dp_shard; the mesh is {}", name, mesh.text());
    }
    if (name == "hsdp" && !mesh.find("dp_replicate")) {
      fail(Status::usage, "--layout hsdp needs a mesh axis dp_replicate; the mesh is {}", mesh.text());
    }
    rule.placements[*shard_axis] = {Placement::Kind::shard, 0};
  } else if (name != "replicate") {
    fail(Status::usage, "--layout: '{}' is not fsdp2, hsdp, replicate or a rules file ending in .json",
         printable(name));
  }
  layout.rules_.push_back(std::move(rule));
  return layout;
}

TensorLayout Layout::resolve(const TensorMeta& tensor) const {
  std::size_t chosen = rules_.size();
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    bool is_default = rules_[i].match.empty();
    if (is_default || glob_match(rules_[i].match, tensor.name)) {
      chosen = i;
      break;
    }
  }
  if (chosen == rules_.size()) {
    fail(Status::usage, "{}: no rule matches tensor {} and there is no default", name_,
         printable(tensor.name));
  }
  const LayoutRule& rule = rules_[chosen];
  TensorLayout out;
  out.rule = chosen;
  out.dims.assign(mesh_.ndim(), -1);
  auto ndim = static_cast<std::int64_t>(tensor.shape.ndim());
  if (ndim == 0 && is_preset_) return out;
  for (std::size_t axis = 0; axis < mesh_.ndim(); ++axis) {
    const Placement& placement = rule.placements[axis];
    if (placement.kind == Placement::Kind::replicate) continue;
    std::int64_t dim = placement.dim < 0 ? placement.dim + ndim : placement.dim;
    if (dim < 0 || dim >= ndim) {
      fail(Status::usage, "{}: {} on axis {} does not fit tensor {} of shape {} (rule '{}')", name_,
           placement.text(), mesh_.axis(axis).name, printable(tensor.name), tensor.shape.text(),
           rule.match.empty() ? "default" : printable(rule.match));
    }
    out.dims[axis] = static_cast<int>(dim);
  }
  return out;
}

std::vector<std::string> Layout::unmatched_rules(const TensorIndex& index) const {
  std::vector<std::string> out;
  for (const LayoutRule& rule : rules_) {
    if (rule.match.empty()) continue;
    bool used = std::any_of(index.tensors.begin(), index.tensors.end(),
                            [&](const TensorMeta& t) { return glob_match(rule.match, t.name); });
    if (!used) out.push_back(rule.match);
  }
  return out;
}

Box local_box(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Dims& coordinate) {
  Box box = whole_box(shape);
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if (layout.dims[axis] < 0) continue;
    auto d = static_cast<std::size_t>(layout.dims[axis]);
    ChunkSpan part = torch_chunk({box.start[d], box.extent[d]}, mesh.axis(axis).size, coordinate[axis]);
    box.start[d] = part.start;
    box.extent[d] = part.extent;
  }
  // DTensor gives an empty shard the dimension's full length as its offset, also where an inner axis left it
  // empty.
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    if (box.extent[d] == 0) box.start[d] = shape[d];
  }
  return box;
}

std::uint32_t replica_mask(const Mesh& mesh, const TensorLayout& layout) {
  std::uint32_t mask = 0;
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if (layout.dims[axis] < 0 && mesh.axis(axis).size > 1) mask |= std::uint32_t{1} << axis;
  }
  return mask;
}

namespace {

struct ShardWalk {
  const Shape& shape;
  const Mesh& mesh;
  const TensorLayout& layout;
  const Box& within;
  const std::function<void(const Dims&, const Box&)>& visit;
  Dims coordinate;

  void descend(std::size_t axis, const Box& box) {
    while (axis < mesh.ndim() && layout.dims[axis] < 0) ++axis;
    if (axis == mesh.ndim()) {
      if (!intersect(box, within).empty()) visit(coordinate, box);
      return;
    }
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
      descend(axis + 1, inner);
    }
    coordinate[axis] = 0;
  }
};

}  // namespace

void for_each_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Box& within,
                    const std::function<void(const Dims&, const Box&)>& visit) {
  ShardWalk walk{shape, mesh, layout, within, visit, Dims(mesh.ndim(), 0)};
  walk.descend(0, whole_box(shape));
}

}  // namespace slabload
