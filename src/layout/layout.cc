#include "layout/layout.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/glob.h"
#include "base/narrow.h"
#include "layout/flat_blocks.h"
#include "layout/name_rules.h"

namespace slabload {

namespace {

// The name with 0 for each of its parts that is a number.
std::string without_numbers(std::string_view name) {
  std::string out;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    out += number ? "0" : part;
    if (dot == std::string_view::npos) return out;
    out += '.';
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

ChunkSpan torch_chunk(ChunkSpan whole, std::uint64_t parts, std::uint64_t part) {
  std::uint64_t step = ceil_div(whole.extent, parts);
  // part * step passes the end for late, empty parts, and 2^64 for absurd lengths.
  unsigned __int128 at = static_cast<unsigned __int128>(step) * part;
  std::uint64_t begin = at < whole.extent ? static_cast<std::uint64_t>(at) : whole.extent;
  return {whole.start + begin, std::min(step, whole.extent - begin)};
}

std::size_t Layout::rule_of(const std::string& name) const {
  std::size_t i = 0;
  while (i < rules_.size() && !rules_[i].match.empty() && !glob_match(rules_[i].match, name)) ++i;
  return i;
}

std::vector<std::size_t> Layout::rules_of(const TensorIndex& index) const {
  std::vector<std::size_t> out;
  out.reserve(index.tensors.size());
  // The presets' globs do not tell one layer's number from another's, so a model has few kinds of names.
  std::unordered_map<std::string, std::size_t> known;
  for (const TensorMeta& tensor : index.tensors) {
    if (!is_preset_) {
      out.push_back(rule_of(tensor.name));
      continue;
    }
    auto [entry, fresh] = known.try_emplace(without_numbers(tensor.name), 0);
    if (fresh) entry->second = rule_of(tensor.name);
    out.push_back(entry->second);
  }
  return out;
}

TensorLayout Layout::resolve_preset(const TensorMeta& tensor, std::size_t chosen) const {
  TensorLayout out;
  out.rule = chosen;
  out.dims.assign(mesh_.ndim(), -1);
  const std::size_t ndim = tensor.shape.ndim();
  if (ndim == 0) return out;
  std::optional<std::size_t> dp_axis;
  for (std::size_t axis = 0; axis < mesh_.ndim(); ++axis) {
    const Placement& placement = rules_[chosen].placements[axis];
    if (placement.kind == Placement::Kind::replicate) continue;
    if (placement.kind == Placement::Kind::flat) {
      out.dims[axis] = TensorLayout::kFlat;
      out.flat_total = tensor.elements();
      continue;
    }
    const auto dim = static_cast<std::size_t>(placement.dim);
    if (axis == tp_axis_) {
      // A scale for the whole tensor is every rank's.
      if (dim >= ndim || (rules_[chosen].of_scales() && tensor.shape[dim] == 1)) continue;
    } else {
      dp_axis = axis;
    }
    out.dims[axis] = static_cast<int>(dim);
  }
  if (dp_axis && tp_axis_ && *dp_axis < *tp_axis_ && out.dims[*dp_axis] == out.dims[*tp_axis_]) {
    for (std::size_t axis = 0; axis < mesh_.ndim(); ++axis) {
      if (axis == dp_axis) out.order.push_back(narrow<std::uint8_t>(*tp_axis_));
      if (axis != tp_axis_) out.order.push_back(narrow<std::uint8_t>(axis));
    }
  }
  return out;
}

TensorLayout Layout::resolve(const TensorMeta& tensor, std::size_t chosen) const {
  if (is_preset_) return resolve_preset(tensor, chosen);
  const LayoutRule& rule = rules_[chosen];
  TensorLayout out;
  out.rule = chosen;
  out.dims.assign(mesh_.ndim(), -1);
  auto ndim = static_cast<std::int64_t>(tensor.shape.ndim());
  auto misfit = [&](std::size_t axis, std::string_view why) {
    fail(Status::usage, "{}: {}: {} on axis {} does not fit tensor {} of shape {}{}", printable(name_),
         rule_name(chosen), rule.placements[axis].text(), printable(mesh_.axis(axis).name),
         shown_name(tensor), tensor.shape.text(), why);
  };
  std::uint64_t factors = 1;
  for (std::size_t axis = 0; axis < mesh_.ndim(); ++axis) {
    const Placement& placement = rule.placements[axis];
    if (placement.kind == Placement::Kind::replicate) continue;
    if (ndim == 0) misfit(axis, ": a tensor without dimensions is only replicated");
    if (placement.kind == Placement::Kind::flat) {
      out.dims[axis] = TensorLayout::kFlat;
      out.flat_total = tensor.elements();
      continue;
    }
    std::int64_t dim = placement.dim < 0 ? placement.dim + ndim : placement.dim;
    if (dim < 0 || dim >= ndim) misfit(axis, "");
    out.dims[axis] = static_cast<int>(dim);
    if (placement.kind == Placement::Kind::strided) {
      out.factors.resize(mesh_.ndim(), 0);
      out.factors[axis] = placement.factor;
      // Several strided dimensions multiply the runs of a shard.
      factors *= placement.factor;
      if (factors > kMostFactor)
        misfit(axis, fmt::format(": all split factors together are above {}", kMostFactor));
    }
  }
  for (std::size_t axis = 0; axis < mesh_.ndim(); ++axis) {
    if (out.dims[axis] != TensorLayout::kFlat) continue;
    for (std::size_t other = 0; other < mesh_.ndim(); ++other) {
      if (other != axis && out.dims[other] != -1)
        misfit(axis, ": what is flattened is cut along no other axis");
    }
  }
  return out;
}

TensorLayout Layout::resolve(const TensorMeta& tensor) const {
  const std::size_t rule = rule_of(tensor.name);
  if (rule == rules_.size()) {
    fail(Status::usage, "{}: no rule matches tensor {} of shape {} and there is no default", printable(name_),
         shown_name(tensor), tensor.shape.text());
  }
  return resolve(tensor, rule);
}

std::vector<TensorLayout> Layout::resolve(const TensorIndex& index) const {
  const std::vector<std::size_t> rules = rules_of(index);
  const auto unmatched = std::count(rules.begin(), rules.end(), rules_.size());
  if (unmatched != 0) {
    constexpr int kNamed = 3;
    std::string names;
    for (std::size_t t = 0, named = 0; t < rules.size() && named < kNamed; ++t) {
      if (rules[t] != rules_.size()) continue;
      const TensorMeta& tensor = index.tensors[t];
      names += fmt::format("{}{} {}", named++ == 0 ? "" : ", ", shown_name(tensor), tensor.shape.text());
    }
    if (unmatched > kNamed) names += fmt::format(" and {} more", unmatched - kNamed);
    fail(Status::usage, "{}: no rule matches {} of {} tensors and there is no default: {}", printable(name_),
         unmatched, rules.size(), names);
  }
  std::vector<TensorLayout> out;
  out.reserve(rules.size());
  for (std::size_t t = 0; t < rules.size(); ++t) out.push_back(resolve(index.tensors[t], rules[t]));
  if (flat_blocks_) join_blocks(index, out);
  return out;
}

}  // namespace slabload
