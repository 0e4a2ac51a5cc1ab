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
  enum class Kind : std::uint8_t { replicate, shard };
  Kind kind = Kind::replicate;
  std::int64_t dim = 0;  // shard: negative counts from the end

  // "R" or "S(d)". Throws Status::usage on anything else; Partial ("P") says why it is refused.
  static Placement parse(std::string_view text);
  std::string text() const;
};

// One rule: the tensors it is for, and a placement per mesh axis.
struct LayoutRule {
  std::string match;  // glob on the tensor's name; empty for the default and the presets
  std::vector<Placement> placements;
};

// The placements of one tensor with shard dimensions resolved and checked: dims[i] is the dimension that mesh
// axis i shards, or -1 where it replicates.
struct TensorLayout {
  std::vector<int> dims;
  std::size_t rule = 0;  // index into Layout::rules()
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
  // A preset: "replicate", "fsdp2" (S(0) on dp_shard, R elsewhere), "hsdp" (the same, needs dp_replicate).
  // 0-d tensors replicate. Throws Status::usage on an unknown name, or a mesh that lacks an axis the preset
  // needs.
  static Layout preset(const std::string& name, const Mesh& mesh);

  // The text of a rules file: {"mesh": "a=2,b=4" or {"a": 2, ...}, "rules": [{"match": GLOB, "placements":
  // {AXIS: "S(0)", ...}}], "default": {...}}. An axis that a rule leaves out replicates. `mesh_override` wins
  // over the file's mesh. Throws Status::usage naming the file and the rule.
  static Layout from_json(std::string_view text, const std::string& source,
                          const std::optional<Mesh>& mesh_override, std::uint64_t ranks);

  const std::string& name() const { return name_; }
  const Mesh& mesh() const { return mesh_; }
  const std::vector<LayoutRule>& rules() const { return rules_; }

  // Resolves the rule of one tensor. Throws Status::usage naming tensor, shape, rule and axis.
  TensorLayout resolve(const TensorMeta& tensor) const;

  // Rules (globs) that match none of the tensors: a likely mistake, reported as a warning.
  std::vector<std::string> unmatched_rules(const TensorIndex& index) const;

 private:
  Layout(std::string name, Mesh mesh) : name_(std::move(name)), mesh_(std::move(mesh)) {}

  std::string name_;
  Mesh mesh_;
  bool is_preset_ = false;
  std::vector<LayoutRule> rules_;
};

// The box a rank holds; an empty one has extent 0 and starts at the dimension's full length.
Box local_box(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Dims& coordinate);

// Ranks with the same coordinate on every sharded axis hold the same box: replicas of each other. The mask
// has bit i set where axis i replicates and has more than one rank.
std::uint32_t replica_mask(const Mesh& mesh, const TensorLayout& layout);

// Calls visit(coordinate-of-a-representative, box) for every distinct non-empty shard that meets `within`;
// replicas are visited once, with coordinate 0 on the replicated axes. Costs what it visits, not the number
// of ranks.
void for_each_shard(const Shape& shape, const Mesh& mesh, const TensorLayout& layout, const Box& within,
                    const std::function<void(const Dims&, const Box&)>& visit);

}  // namespace slabload
