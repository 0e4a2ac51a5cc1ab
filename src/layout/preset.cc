// Layout::preset: the layouts that have a name, and the tp rules for the names of common decoder models.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "layout/layout.h"

namespace slabload {
namespace {

enum class Cut : std::uint8_t {
  column,     // weight, bias and scales by their first dimension: the outputs
  row,        // weight and scales by their second dimension, the inputs; the bias is whole
  rows_of,    // this tensor alone, by its first dimension
  replicate,  // this tensor, whole
  fused_qkv,  // whole, and named in the notes: see kFusedQkv
  fused_gate_up,
};

// Fused tensors hold their parts one after the other, interleaved by heads or by groups of them, as the family likes;
// only GPT-NeoX is known by its name alone.
constexpr const char* kFusedQkv =
    "fused of q, k and v: replicated along tp, since an even cut would not give each rank its heads of all three";
constexpr const char* kFusedGateUp =
    "fused of gate and up: replicated along tp, since an even cut would not give each rank its part of both";

struct TpRule {
  const char* name;  // of a module (column, row) or of tensors; none holds a number on its own between dots
  Cut cut;
};

// The first that matches wins.
constexpr TpRule kTpRules[] = {
    // Vision towers are small, and their heads seldom divide.
    {"*visual.*", Cut::replicate},
    {"*vision_tower.*", Cut::replicate},
    {"*vision_model.*", Cut::replicate},
    // All families: norms, of queries and keys too, the vocabulary.
    {"*norm.weight", Cut::replicate},
    {"*norm.bias", Cut::replicate},
    {"*embed_tokens.weight", Cut::rows_of},
    {"*lm_head.weight", Cut::rows_of},
    {"*lm_head.bias", Cut::rows_of},
    {"*.shared_head.head.weight", Cut::rows_of},  // DeepSeek: the lm_head of its further layer
    {"*.rotary_emb.inv_freq", Cut::replicate},
    // Llama, Qwen, Mistral; experts and shared experts have the names of an MLP.
    {"*.[qkv]_proj", Cut::column},
    {"*.o_proj", Cut::row},
    {"*.gate_proj", Cut::column},
    {"*.up_proj", Cut::column},
    {"*.down_proj", Cut::row},
    // DeepSeek: what is low rank is whole, what comes out of it is cut by heads; routers.
    {"*.q_a_proj.*", Cut::replicate},
    {"*.kv_a_proj_with_mqa.*", Cut::replicate},
    {"*.q_b_proj", Cut::column},
    {"*.kv_b_proj", Cut::column},
    {"*.eh_proj.*", Cut::replicate},  // its output is the hidden state, which tp has whole on each rank
    {"*.mlp.gate.*", Cut::replicate},
    {"*.mlp.shared_expert_gate.*", Cut::replicate},
    // Mixtral.
    {"*.block_sparse_moe.gate.*", Cut::replicate},
    {"*.block_sparse_moe.experts.*.w[13]", Cut::column},
    {"*.block_sparse_moe.experts.*.w2", Cut::row},
    // GPT-NeoX; its query_key_value holds head after head. The last two are buffers.
    {"*.attention.query_key_value", Cut::column},
    {"*.attention.dense", Cut::row},
    {"*.mlp.dense_h_to_4h", Cut::column},
    {"*.mlp.dense_4h_to_h", Cut::row},
    {"*embed_in.weight", Cut::rows_of},
    {"*embed_out.weight", Cut::rows_of},
    {"*.attention.bias", Cut::replicate},
    {"*.attention.masked_bias", Cut::replicate},
    // Fused, by the names of Phi-3, BLOOM, Falcon, ChatGLM, GPT-2, Qwen, MPT, DBRX, Baichuan, Llama 4 and gpt-oss.
    {"*.qkv_proj.*", Cut::fused_qkv},
    {"*.self_attention.query_key_value.*", Cut::fused_qkv},
    {"*.self_attn.query_key_value.*", Cut::fused_qkv},
    {"*.c_attn.*", Cut::fused_qkv},
    {"*.Wqkv.*", Cut::fused_qkv},
    {"*.W_pack.*", Cut::fused_qkv},
    {"*.gate_up_proj*", Cut::fused_gate_up},
};

Placement shard(std::int64_t dim) {
  return {Placement::Kind::shard, dim};
}

// The rules of the table as globs on tensors, with `others` on all axes but `tp`.
std::vector<LayoutRule> tp_rules(const std::vector<Placement>& others, std::size_t tp) {
  std::vector<LayoutRule> out;
  auto add = [&](const std::string& match, Placement on_tp) {
    out.push_back({match, others});
    out.back().placements[tp] = on_tp;
  };
  for (const TpRule& rule : kTpRules) {
    const std::string name = rule.name;
    switch (rule.cut) {
      case Cut::column:
      case Cut::row: {
        const bool column = rule.cut == Cut::column;
        add(name + ".weight", shard(column ? 0 : 1));
        add(name + ".bias", column ? shard(0) : Placement{});
        add(name + ".*_scale*", shard(column ? 0 : 1));
        break;
      }
      case Cut::rows_of:
        add(name, shard(0));
        break;
      case Cut::replicate:
        add(name, {});
        break;
      case Cut::fused_qkv:
      case Cut::fused_gate_up:
        add(name, {});
        out.back().whole_because = rule.cut == Cut::fused_qkv ? kFusedQkv : kFusedGateUp;
        break;
    }
  }
  out.push_back({"", others, false});
  return out;
}

}  // namespace

Layout Layout::preset(const std::string& name, const Mesh& mesh) {
  constexpr std::array<std::string_view, 7> kNames = {"replicate", "fsdp2", "hsdp", "tp",
                                                      "fsdp2+tp",  "fsdp1", "zero3"};
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    fail(Status::usage, "--layout: '{}' is not {} or a rules file ending in .json", printable(name),
         fmt::join(kNames, ", "));
  }
  auto axis = [&](std::string_view wanted) {
    auto found = mesh.find(wanted);
    if (!found)
      fail(Status::usage, "--layout {} needs a mesh axis {}; the mesh is {}", name, wanted, mesh.text());
    return *found;
  };
  const bool fsdp2 = name.starts_with("fsdp2") || name == "hsdp";
  const bool flat = name == "fsdp1" || name == "zero3";
  Layout layout(name, mesh);
  layout.is_preset_ = true;
  layout.flat_blocks_ = name == "fsdp1";
  std::vector<Placement> placements(mesh.ndim());
  if (fsdp2) placements[axis("dp_shard")] = shard(0);
  if (flat) placements[axis("dp_shard")] = {Placement::Kind::flat};
  if (name == "hsdp") axis("dp_replicate");
  if (name.ends_with("tp")) {
    layout.tp_axis_ = axis("tp");
  } else if (auto tp = mesh.find("tp"); fsdp2 && tp && mesh.axis(*tp).size > 1) {
    layout.tp_axis_ = tp;
  }
  if (layout.tp_axis_) {
    layout.rules_ = tp_rules(placements, *layout.tp_axis_);
  } else {
    layout.rules_.push_back({"", std::move(placements)});
  }
  return layout;
}

}  // namespace slabload
