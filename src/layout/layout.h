// Which part of a tensor a rank holds. Follows PyTorch's DTensor: one placement per mesh axis, applied left
// to right; Shard(d) is torch.chunk (ceil(n/k) rows each, later ranks short or empty), not a balanced split.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "index/tensor_index.h"
#include "layout/mesh.h"
#include "tensor/box.h"

namespace slabload {

struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, strided, flat };
  Kind kind = Kind::replicate;
  std::int64_t dim = 0;      // shard, strided: negative counts from the end
  std::uint64_t factor = 1;  // strided: the chunks that are split again, 1..kMostFactor

  // "R", "S(d)", "SS(d,f)" or "F". Throws Status::usage on anything else; Partial ("P") says why it is
  // refused.
  static Placement parse(std::string_view text);
  std::string text() const;
};
// A strided shard can be as many runs as its factor.
inline constexpr std::uint64_t kMostFactor = 65536;

// One rule: the tensors it is for, and a placement per mesh axis.
struct LayoutRule {
  std::string match;  // glob on the tensor's name; empty for a default, and what a preset does with the rest
  std::vector<Placement> placements;
  bool known = true;  // false: what a preset with tp rules does with the tensors that they do not know
  // Of a preset: why tp leaves whole what it would cut were it not fused of several parts; else null.
  const char* whole_because = nullptr;

  // Of a preset: a tp rule for the scales of quantised weights.
  bool of_scales() const { return match.ends_with("_scale*"); }
};

// The placements of one tensor, resolved and checked.
struct TensorLayout {
  std::vector<int> dims;  // per mesh axis: the dimension that it shards, -1 where it replicates, kFlat
  std::size_t rule = 0;   // index into Layout::rules()
  std::vector<std::uint64_t> factors{};  // per mesh axis: of a strided shard, else 0; empty: none is strided
  // The mesh axes in the order in which they cut the tensor; empty: outermost first. (FSDP2 over TP stores
  // what TP left, cut by the outer axis.)
  std::vector<std::uint8_t> order{};
  // With kFlat: the tensor is elements [flat_before, flat_before + its own) of flat_total, cut evenly.
  std::uint64_t flat_before = 0, flat_total = 0;
  std::string part_of{};  // with kFlat: what is flattened together with it, for people; empty: nothing

  static constexpr int kFlat = -2;
  bool flat() const {
    for (int dim : dims) {
      if (dim == kFlat) return true;
    }
    return false;
  }
};

// chunk `part` of `parts` of `length` elements at `start`: torch.chunk's rule. An empty chunk starts at start
// + length.
struct ChunkSpan {
  std::uint64_t start;
  std::uint64_t extent;
};
ChunkSpan torch_chunk(ChunkSpan whole, std::uint64_t parts, std::uint64_t part);

class Layout {
 public:
  // A preset: "replicate"; "fsdp2" (S(0) on dp_shard, and the tp rules of preset.cc if there is an axis tp of
  // more than one rank), "hsdp" (the same, needs dp_replicate), "tp" (the tp rules), "fsdp2+tp" (fsdp2, needs
  // tp); "fsdp1", "zero3" (flat on dp_shard). What tp and dp_shard both cut is cut by tp first, as FSDP2
  // stores it. All other axes replicate, and so do 0-d tensors. Throws Status::usage on an unknown name, or a
  // mesh that lacks an axis the preset needs.
  static Layout preset(const std::string& name, const Mesh& mesh);

  // The text of a rules file: {"mesh": "a=2,b=4" or {"a": 2, ...}, "rules": [{"match": GLOB, "placements":
  // {AXIS: "S(0)", ...}}], "default": {...}}, and the lists of name_rules.h, which are only checked here. An
  // axis that a rule leaves out replicates. `mesh_override` wins over the file's mesh. Throws Status::usage
  // naming the file and the rule.
  static Layout from_json(std::string_view text, const std::string& source,
                          const std::optional<Mesh>& mesh_override, std::uint64_t ranks);

  const std::string& name() const { return name_; }
  const Mesh& mesh() const { return mesh_; }
  const std::vector<LayoutRule>& rules() const { return rules_; }

  // Resolves the rule of one tensor, taken alone. Throws Status::usage naming tensor, shape, rule and axis.
  TensorLayout resolve(const TensorMeta& tensor) const;
  // Of all tensors of a checkpoint, in its order: those that are flattened together know of each other.
  // Throws as above; tensors that no rule matches are counted, and the first few named.
  std::vector<TensorLayout> resolve(const TensorIndex& index) const;

  // A rule that applies to none of the tensors: a likely mistake, reported as a warning.
  struct UnusedRule {
    std::string match;
    std::string earlier;  // the name of the first rule that takes what it matches; empty if it matches nothing
  };
  // None of a preset.
  std::vector<UnusedRule> unused_rules(const TensorIndex& index) const;

  // Names of the tensors that a preset's tp rules do not know, or do not fit, and that tp therefore
  // replicates. Empty without tp rules, or where tp is one rank.
  std::vector<std::string> unknown_to_tp(const TensorIndex& index) const;

  // Names of the tensors that a preset's tp rules know, but leave whole since an even cut would tear what is fused in
  // them, for each reason. Empty as above.
  struct LeftWhole {
    std::string reason;
    std::vector<std::string> names;
  };
  std::vector<LeftWhole> left_whole(const TensorIndex& index) const;

  // Names of the tensors of which FSDP2 over TP stores other rows on some rank than the placement formula
  // `SS(d,tp) S(d)` gives (see fsdp2_storage.h), whichever of the two this layout follows for them.
  std::vector<std::string> storage_differs(const TensorIndex& index) const;

  // Why a tensor lies as it does, on one line: "rule 3 'model.*.q_proj.*': dp_shard=R tp=S(0)". `resolved` is
  // resolve()'s answer for it.
  std::string rule_text(const TensorMeta& tensor, const TensorLayout& resolved) const;

 private:
  Layout(std::string name, Mesh mesh) : name_(std::move(name)), mesh_(std::move(mesh)) {}

  // The rule of each tensor; rules_.size() for none.
  std::vector<std::size_t> rules_of(const TensorIndex& index) const;
  std::size_t rule_of(const std::string& name) const;
  // "rule 3 'model.*'", "the default".
  std::string rule_name(std::size_t rule) const;
  TensorLayout resolve(const TensorMeta& tensor, std::size_t rule) const;
  TensorLayout resolve_preset(const TensorMeta& tensor, std::size_t rule) const;
  bool unknown_to_tp(const TensorMeta& tensor, const TensorLayout& resolved) const;

  std::string name_;
  Mesh mesh_;
  std::vector<LayoutRule> rules_;
  bool is_preset_ = false;
  std::optional<std::size_t> tp_axis_;  // of a preset with tp rules
  bool flat_blocks_ = false;            // fsdp1: the tensors of a block are flattened together
};

}  // namespace slabload
