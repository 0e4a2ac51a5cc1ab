// What a Layout says of itself: why a tensor lies as it does, and what deserves a look.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/glob.h"
#include "layout/fsdp2_storage.h"
#include "layout/layout.h"

namespace slabload {
namespace {

struct TwoAxes {
  std::size_t outer, inner;
};

// The axes (dp, tp) of a tensor that lies as FSDP2 over TP stores it, or as the formula for it says.
std::optional<TwoAxes> fsdp2_axes(const Mesh& mesh, const TensorLayout& layout) {
  std::optional<TwoAxes> found;
  for (std::size_t outer = 0; outer < mesh.ndim(); ++outer) {
    if (layout.dims[outer] < 0) continue;
    std::size_t cuts = 0, inner = 0;  // axes that cut the same dimension
    for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
      if (layout.dims[axis] != layout.dims[outer]) continue;
      ++cuts;
      if (axis > outer) inner = axis;
    }
    if (cuts != 2 || inner == 0) continue;
    const bool formula = !layout.factors.empty() && layout.factors[outer] == mesh.axis(inner).size &&
                         layout.factors[inner] == 0;
    if (!layout.order.empty() || formula) found = {outer, inner};
  }
  return found;
}

}  // namespace

std::string Layout::rule_name(std::size_t rule) const {
  if (rules_[rule].match.empty()) return "the default";
  return fmt::format("rule {} '{}'", rule + 1, printable(rules_[rule].match));
}

std::vector<Layout::UnusedRule> Layout::unused_rules(const TensorIndex& index) const {
  std::vector<UnusedRule> out;
  if (is_preset_) return out;
  const std::vector<std::size_t> chosen = rules_of(index);
  std::vector<bool> used(rules_.size() + 1);
  for (std::size_t rule : chosen) used[rule] = true;
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    if (used[r] || rules_[r].match.empty()) continue;
    std::size_t earlier = rules_.size();
    for (std::size_t t = 0; t < chosen.size(); ++t) {
      if (chosen[t] < earlier && glob_match(rules_[r].match, index.tensors[t].name)) earlier = chosen[t];
    }
    out.push_back({rules_[r].match, earlier < rules_.size() ? rule_name(earlier) : ""});
  }
  return out;
}

bool Layout::unknown_to_tp(const TensorMeta& tensor, const TensorLayout& resolved) const {
  if (!tp_axis_ || tensor.shape.ndim() == 0) return false;
  const LayoutRule& rule = rules_[resolved.rule];
  const bool cuts = rule.placements[*tp_axis_].kind != Placement::Kind::replicate;
  // A weight that lacks the dimension is something else.
  const bool misfit = cuts && resolved.dims[*tp_axis_] == -1 && !rule.of_scales();
  return !rule.known || misfit;
}

std::vector<std::string> Layout::unknown_to_tp(const TensorIndex& index) const {
  std::vector<std::string> out;
  if (!tp_axis_ || mesh_.axis(*tp_axis_).size == 1) return out;
  const std::vector<std::size_t> rules = rules_of(index);
  for (std::size_t t = 0; t < rules.size(); ++t) {
    const TensorMeta& tensor = index.tensors[t];
    if (unknown_to_tp(tensor, resolve(tensor, rules[t]))) out.push_back(tensor.name);
  }
  return out;
}

std::vector<Layout::LeftWhole> Layout::left_whole(const TensorIndex& index) const {
  std::vector<LeftWhole> out;
  if (!tp_axis_ || mesh_.axis(*tp_axis_).size == 1) return out;
  const std::vector<std::size_t> rules = rules_of(index);
  for (std::size_t t = 0; t < rules.size(); ++t) {
    const char* reason = rules_[rules[t]].whole_because;
    if (reason == nullptr || index.tensors[t].shape.ndim() == 0) continue;
    auto same = std::find_if(out.begin(), out.end(), [&](const LeftWhole& w) { return w.reason == reason; });
    if (same == out.end()) same = out.insert(out.end(), LeftWhole{reason, {}});
    same->names.push_back(index.tensors[t].name);
  }
  return out;
}

std::vector<std::string> Layout::storage_differs(const TensorIndex& index) const {
  std::vector<std::string> out;
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, bool> known;
  const std::vector<std::size_t> rules = rules_of(index);
  for (std::size_t t = 0; t < rules.size(); ++t) {
    const TensorMeta& tensor = index.tensors[t];
    if (rules[t] == rules_.size()) continue;
    const TensorLayout resolved = resolve(tensor, rules[t]);
    auto axes = fsdp2_axes(mesh_, resolved);
    if (!axes) continue;
    const auto dim = static_cast<std::size_t>(resolved.dims[axes->outer]);
    std::tuple key{tensor.shape[dim], mesh_.axis(axes->outer).size, mesh_.axis(axes->inner).size};
    auto [entry, fresh] = known.try_emplace(key, true);
    if (fresh) entry->second = std::apply(formula_is_storage, key);
    if (!entry->second) out.push_back(tensor.name);
  }
  return out;
}

std::string Layout::rule_text(const TensorMeta& tensor, const TensorLayout& resolved) const {
  const LayoutRule& rule = rules_.at(resolved.rule);
  std::string out;
  if (!is_preset_) {
    out = rule_name(resolved.rule);
  } else {
    out = "preset " + name_;
    if (!rule.match.empty()) {
      out += fmt::format(", tp rule '{}'", rule.match);
    } else if (tp_axis_ && tensor.shape.ndim() != 0) {
      out += ", no tp rule knows it";
    }
  }
  out += ":";
  for (std::size_t axis = 0; axis < mesh_.ndim(); ++axis) {
    const bool left_out = is_preset_ && resolved.dims[axis] == -1;
    out += fmt::format(" {}={}", printable(mesh_.axis(axis).name),
                       left_out ? "R" : rule.placements[axis].text());
  }
  if (is_preset_ && tensor.shape.ndim() == 0) out += "; a tensor without dimensions is replicated";
  if (!rule.match.empty() && rule.known && unknown_to_tp(tensor, resolved))
    out += fmt::format("; the rule does not fit shape {}", tensor.shape.text());
  if (rule.whole_because != nullptr && tensor.shape.ndim() != 0) out += fmt::format("; {}", rule.whole_because);
  if (!resolved.order.empty()) out += "; cut by tp before dp_shard, as FSDP2 stores it";
  if (!resolved.part_of.empty()) {
    out += fmt::format("; flat with {}: elements {}..{} of {}", printable(resolved.part_of),
                       resolved.flat_before, resolved.flat_before + tensor.elements(), resolved.flat_total);
  }
  return out;
}

}  // namespace slabload