// A rules file: mesh, placements by glob, renames and aliases.
#include <set>

#include "fuzz/fuzz.h"
#include "layout/layout.h"
#include "layout/name_rules.h"
#include "layout/shard.h"

using namespace slabload;
using fuzz::must;
using fuzz::taken;

namespace {

constexpr std::uint64_t kMostRanks = 64;  // for which shards are laid side by side

TensorIndex small_index() {
  const std::pair<const char*, Shape> tensors[] = {
      {"model.embed_tokens.weight", {11, 4}},  {"model.layers.0.self_attn.q_proj.weight", {8, 4}},
      {"model.layers.0.mlp.down_proj.weight", {4, 6}}, {"model.layers.1.norm.weight", {5}},
      {"lm_head.weight", {3, 2, 4}},           {"scalar", Shape{}}, {"none", {0, 3}}};
  TensorIndex index;
  index.path = "model";
  index.files.push_back({"model", 0, 0, 0});
  for (const auto& [name, shape] : tensors) {
    TensorMeta t;
    t.name = t.path = name;
    t.shape = shape;
    t.stored_bytes = t.bytes();
    index.tensors.push_back(t);
  }
  index.tensors[4].aliases = {"tied.weight"};
  return index;
}

// The shards of all ranks lie within the tensor and hold each element, ranks that replicate each other all of them.
void check_shards(const TensorIndex& index, const Layout& layout, const std::vector<TensorLayout>& resolved) {
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    const Shape& shape = index.tensors[t].shape;
    std::vector<std::uint64_t> held(shape.elements(), 0);
    std::uint64_t copies = 1;
    const std::uint32_t mask = replica_mask(layout.mesh(), resolved[t]);
    for (std::size_t axis = 0; axis < layout.mesh().ndim(); ++axis) {
      if (mask >> axis & 1) copies *= layout.mesh().axis(axis).size;
    }
    for (std::uint64_t rank = 0; rank < layout.mesh().ranks(); ++rank) {
      const Shard shard = local_shard(shape, layout.mesh(), resolved[t], layout.mesh().coordinate(rank));
      std::uint64_t elements = 0;
      for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box&, std::uint64_t) {
        for (std::size_t d = 0; d < shape.ndim(); ++d) {
          must(box.start[d] <= shape[d] && box.extent[d] <= shape[d] - box.start[d], "a shard within its tensor");
        }
        for_each_run(shape, box, [&](std::uint64_t begin, std::uint64_t length) {
          for (std::uint64_t i = begin; i < begin + length; ++i) ++held.at(i);
        });
        elements += box.elements();
      });
      must(elements == shard.box.elements(), "the blocks are the shard");
      must(elements <= largest_shard(shape, layout.mesh(), resolved[t]), "no shard larger than the largest");
    }
    for (std::uint64_t times : held) must(times == copies, "every element once, and once per replica");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TensorIndex index = small_index();
  const std::string_view text = fuzz::text_of(data, size);
  taken({Status::usage}, [&] {
    const Layout layout = Layout::from_json(text, "rules.json", std::nullopt, 4);
    must(Mesh::parse(layout.mesh().text()).text() == layout.mesh().text(), "a mesh, printed and parsed again");
    for (const LayoutRule& rule : layout.rules()) {
      must(rule.placements.size() == layout.mesh().ndim(), "a placement per axis");
      for (const Placement& p : rule.placements) must(Placement::parse(p.text()).text() == p.text(), "a placement again");
    }
    layout.unused_rules(index);
    const std::vector<TensorLayout> resolved = layout.resolve(index);
    for (std::size_t t = 0; t < resolved.size(); ++t) {
      must(!layout.rule_text(index.tensors[t], resolved[t]).empty(), "a rule for people");
    }
    if (layout.mesh().ranks() <= kMostRanks) check_shards(index, layout, resolved);
  });
  taken({Status::usage}, [&] {
    const TensorIndex renamed = rename_tensors(index, NameRules::from_json(text, "rules.json"));
    std::set<std::string> names;
    must(renamed.tensors.size() == index.tensors.size(), "as many tensors");
    for (std::size_t t = 0; t < renamed.tensors.size(); ++t) {
      const TensorMeta& tensor = renamed.tensors[t];
      must(tensor.path == index.tensors[t].path, "the place in the file stays");
      must(!tensor.name.empty() && names.insert(tensor.name).second, "a name of its own");
      for (const std::string& alias : tensor.aliases) must(names.insert(alias).second, "aliases of its own");
    }
  });
  return 0;
}
