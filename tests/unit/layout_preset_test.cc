// The layouts that have a name: which rule each real name gets, the storage rule, flat groups.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "index/table.h"
#include "layout/flat_blocks.h"
#include "layout/fsdp2_storage.h"
#include "layout/shard.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorMeta tensor(const std::string& name, Shape shape, DType dtype = DType::bf16) {
  TensorMeta t;
  t.name = name;
  t.shape = std::move(shape);
  t.dtype = dtype;
  return t;
}

TensorIndex index_of(std::vector<TensorMeta> tensors) {
  TensorIndex index;
  index.tensors = std::move(tensors);
  return index;
}

// "S(0)", "R", or "?" for what falls to the catch-all.
std::string on_tp(const std::string& name, Shape shape) {
  const Layout layout = Layout::preset("tp", Mesh::parse("tp=4"));
  const TensorIndex index = index_of({tensor(name, std::move(shape))});
  const int dim = layout.resolve(index)[0].dims[0];
  EXPECT_EQ(layout.resolve(index.tensors[0]).dims[0], dim);
  if (!layout.unknown_to_tp(index).empty()) {
    EXPECT_EQ(dim, -1) << name;
    return "?";
  }
  return dim == -1 ? "R" : fmt::format("S({})", dim);
}

TEST(TpRules, KnowTheNamesOfEachFamily) {
  const Shape matrix{64, 64}, vector{64};
  struct {
    const char* name;
    Shape shape;
    const char* expected;
  } cases[] = {
      // Llama, Mistral, Qwen2, Qwen2.5, Qwen3
      {"model.embed_tokens.weight", matrix, "S(0)"},
      {"model.layers.0.self_attn.q_proj.weight", matrix, "S(0)"},
      {"model.layers.17.self_attn.k_proj.weight", matrix, "S(0)"},
      {"model.layers.0.self_attn.v_proj.weight", matrix, "S(0)"},
      {"model.layers.0.self_attn.q_proj.bias", vector, "S(0)"},
      {"model.layers.0.self_attn.k_proj.bias", vector, "S(0)"},
      {"model.layers.0.self_attn.v_proj.bias", vector, "S(0)"},
      {"model.layers.0.self_attn.o_proj.weight", matrix, "S(1)"},
      {"model.layers.0.self_attn.o_proj.bias", vector, "R"},
      {"model.layers.0.self_attn.q_norm.weight", vector, "R"},
      {"model.layers.0.self_attn.k_norm.weight", vector, "R"},
      {"model.layers.0.self_attn.rotary_emb.inv_freq", vector, "R"},
      {"model.layers.0.mlp.gate_proj.weight", matrix, "S(0)"},
      {"model.layers.0.mlp.up_proj.weight", matrix, "S(0)"},
      {"model.layers.0.mlp.up_proj.bias", vector, "S(0)"},
      {"model.layers.0.mlp.down_proj.weight", matrix, "S(1)"},
      {"model.layers.0.mlp.down_proj.bias", vector, "R"},
      {"model.layers.0.input_layernorm.weight", vector, "R"},
      {"model.layers.0.post_attention_layernorm.weight", vector, "R"},
      {"model.norm.weight", vector, "R"},
      {"lm_head.weight", matrix, "S(0)"},
      // with other prefixes, or none
      {"embed_tokens.weight", matrix, "S(0)"},
      {"norm.weight", vector, "R"},
      {"layers.3.self_attn.q_proj.weight", matrix, "S(0)"},
      {"model.language_model.layers.3.mlp.down_proj.weight", matrix, "S(1)"},
      {"model.language_model.embed_tokens.weight", matrix, "S(0)"},
      {"language_model.lm_head.weight", matrix, "S(0)"},
      // scales of quantised weights: a number for each row or block is cut with it, one for all is whole
      {"model.layers.0.self_attn.q_proj.weight_scale", {64, 1}, "S(0)"},
      {"model.layers.0.self_attn.q_proj.weight_scale", {1}, "R"},
      {"model.layers.0.self_attn.q_proj.weight_scale_inv", {8, 8}, "S(0)"},
      {"model.layers.0.self_attn.q_proj.input_scale", {}, "R"},
      {"model.layers.0.self_attn.o_proj.weight_scale_inv", {8, 8}, "S(1)"},
      {"model.layers.0.self_attn.o_proj.weight_scale", {64, 1}, "R"},
      {"model.layers.0.self_attn.o_proj.weight_scale", {64}, "R"},
      // Qwen2 and Qwen3 MoE
      {"model.layers.0.mlp.experts.127.gate_proj.weight", matrix, "S(0)"},
      {"model.layers.0.mlp.experts.127.down_proj.weight", matrix, "S(1)"},
      {"model.layers.0.mlp.shared_expert.up_proj.weight", matrix, "S(0)"},
      {"model.layers.0.mlp.shared_expert_gate.weight", {1, 64}, "R"},
      {"model.layers.0.mlp.gate.weight", matrix, "R"},
      // DeepSeek
      {"model.layers.0.self_attn.q_a_proj.weight", matrix, "R"},
      {"model.layers.0.self_attn.q_a_proj.weight_scale_inv", {8, 8}, "R"},
      {"model.layers.0.self_attn.q_a_layernorm.weight", vector, "R"},
      {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", matrix, "R"},
      {"model.layers.0.self_attn.kv_a_layernorm.weight", vector, "R"},
      {"model.layers.0.self_attn.q_b_proj.weight", matrix, "S(0)"},
      {"model.layers.0.self_attn.kv_b_proj.weight", matrix, "S(0)"},
      {"model.layers.0.self_attn.kv_b_proj.weight_scale_inv", {8, 8}, "S(0)"},
      {"model.layers.3.mlp.experts.0.up_proj.weight", matrix, "S(0)"},
      {"model.layers.3.mlp.experts.255.down_proj.weight_scale_inv", {8, 8}, "S(1)"},
      {"model.layers.3.mlp.shared_experts.down_proj.weight", matrix, "S(1)"},
      {"model.layers.3.mlp.gate.e_score_correction_bias", vector, "R"},
      {"model.layers.61.eh_proj.weight", {64, 128}, "R"},
      {"model.layers.61.enorm.weight", vector, "R"},
      {"model.layers.61.hnorm.weight", vector, "R"},
      {"model.layers.61.embed_tokens.weight", matrix, "S(0)"},
      {"model.layers.61.shared_head.norm.weight", vector, "R"},
      {"model.layers.61.shared_head.head.weight", matrix, "S(0)"},
      // Mixtral
      {"model.layers.0.block_sparse_moe.gate.weight", matrix, "R"},
      {"model.layers.0.block_sparse_moe.experts.7.w1.weight", matrix, "S(0)"},
      {"model.layers.0.block_sparse_moe.experts.7.w2.weight", matrix, "S(1)"},
      {"model.layers.0.block_sparse_moe.experts.7.w3.weight", matrix, "S(0)"},
      // GPT-NeoX
      {"gpt_neox.embed_in.weight", matrix, "S(0)"},
      {"gpt_neox.layers.0.attention.query_key_value.weight", matrix, "S(0)"},
      {"gpt_neox.layers.0.attention.query_key_value.bias", vector, "S(0)"},
      {"gpt_neox.layers.0.attention.dense.weight", matrix, "S(1)"},
      {"gpt_neox.layers.0.attention.dense.bias", vector, "R"},
      {"gpt_neox.layers.0.attention.bias", {1, 1, 64, 64}, "R"},
      {"gpt_neox.layers.0.attention.masked_bias", {}, "R"},
      {"gpt_neox.layers.0.attention.rotary_emb.inv_freq", vector, "R"},
      {"gpt_neox.layers.0.mlp.dense_h_to_4h.weight", matrix, "S(0)"},
      {"gpt_neox.layers.0.mlp.dense_h_to_4h.bias", vector, "S(0)"},
      {"gpt_neox.layers.0.mlp.dense_4h_to_h.weight", matrix, "S(1)"},
      {"gpt_neox.layers.0.mlp.dense_4h_to_h.bias", vector, "R"},
      {"gpt_neox.layers.0.input_layernorm.bias", vector, "R"},
      {"gpt_neox.final_layer_norm.weight", vector, "R"},
      {"embed_out.weight", matrix, "S(0)"},
      // vision towers
      {"visual.blocks.0.attn.qkv.weight", matrix, "R"},
      {"visual.blocks.0.mlp.gate_proj.weight", matrix, "R"},
      {"model.visual.blocks.31.mlp.down_proj.weight", matrix, "R"},
      {"vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight", matrix, "R"},
      // what no rule knows, or what does not have the shape of a weight
      {"transformer.h.0.attn.c_proj.weight", matrix, "?"},
      {"model.layers.0.self_attn.q_proj.qweight", matrix, "?"},
      {"model.layers.0.self_attn.q_proj.lora_A.weight", matrix, "?"},
      {"model.layers.0.self_attn.o_proj.weight", {2048, 1}, "S(1)"},
      {"model.layers.0.self_attn.o_proj.weight", vector, "?"},
      {"step", {}, "R"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(on_tp(c.name, c.shape), c.expected) << c.name << " " << c.shape.text();
}

// Phi-3, BLOOM, GPT-2, MPT, Baichuan; the experts of Llama 4 and gpt-oss. GPT-NeoX's holds head after head: it is cut.
TEST(TpRules, LeaveFusedTensorsWholeAndNameThem) {
  const Shape matrix{192, 64};
  const std::vector<std::string> qkv = {"model.layers.0.self_attn.qkv_proj.weight",
                                        "model.layers.0.self_attn.qkv_proj.bias",
                                        "h.0.self_attention.query_key_value.weight",
                                        "transformer.h.0.attn.c_attn.weight",
                                        "transformer.blocks.0.attn.Wqkv.weight",
                                        "model.layers.0.self_attn.W_pack.weight"};
  const std::vector<std::string> gate_up = {"model.layers.0.mlp.gate_up_proj.weight",
                                            "model.layers.0.feed_forward.experts.gate_up_proj",
                                            "model.layers.0.mlp.experts.gate_up_proj_bias"};
  std::vector<TensorMeta> tensors;
  for (const auto& name : qkv) tensors.push_back(tensor(name, matrix));
  for (const auto& name : gate_up) tensors.push_back(tensor(name, matrix));
  tensors.push_back(tensor("gpt_neox.layers.0.attention.query_key_value.weight", matrix));
  tensors.push_back(tensor("visual.blocks.0.attn.qkv_proj.weight", matrix));
  tensors.push_back(tensor("other", matrix));
  const TensorIndex index = index_of(std::move(tensors));
  const Layout layout = Layout::preset("fsdp2+tp", Mesh::parse("dp_shard=2,tp=4"));
  const auto left = layout.left_whole(index);
  ASSERT_EQ(left.size(), 2u);
  EXPECT_THAT(left[0].reason, HasSubstr("q, k and v"));
  EXPECT_EQ(left[0].names, qkv);
  EXPECT_THAT(left[1].reason, HasSubstr("gate and up"));
  EXPECT_EQ(left[1].names, gate_up);
  EXPECT_THAT(layout.unknown_to_tp(index), ElementsAre("other"));
  const std::vector<TensorLayout> resolved = layout.resolve(index);
  for (std::size_t t = 0; t < qkv.size() + gate_up.size(); ++t) EXPECT_THAT(resolved[t].dims, ElementsAre(0, -1));
  EXPECT_THAT(resolved[qkv.size() + gate_up.size()].dims, ElementsAre(0, 0));
  EXPECT_THAT(layout.rule_text(index.tensors[0], resolved[0]), HasSubstr("fused of q, k and v"));
  // One rank of tp, or no rules for it: nothing to say.
  EXPECT_THAT(Layout::preset("tp", Mesh::parse("tp=1")).left_whole(index), IsEmpty());
  EXPECT_THAT(Layout::preset("fsdp2", Mesh::parse("dp_shard=4")).left_whole(index), IsEmpty());
}

TEST(TpRules, KnowEveryTensorOfTheTables) {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../tables";
  int tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const TensorIndex index = parse_table(std::string(std::istreambuf_iterator<char>(in), {}), entry.path());
    const Layout layout = Layout::preset("fsdp2+tp", Mesh::parse("dp_shard=8,tp=4"));
    EXPECT_THAT(layout.unknown_to_tp(index), IsEmpty()) << entry.path();
    EXPECT_THAT(layout.unused_rules(index), IsEmpty());
    // One tensor alone and all of them take different ways to their rule.
    const std::vector<TensorLayout> all = layout.resolve(index);
    for (std::size_t t = 0; t < all.size(); ++t) {
      const TensorLayout one = layout.resolve(index.tensors[t]);
      ASSERT_EQ(one.rule, all[t].rule) << index.tensors[t].name;
      ASSERT_EQ(one.dims, all[t].dims);
      ASSERT_EQ(one.order, all[t].order);
    }
    ++tables;
  }
  EXPECT_EQ(tables, 5) << "run the tests from the top folder";
}

TEST(TpRules, HoldNoNumberOfALayer) {
  const Layout layout = Layout::preset("tp", Mesh::parse("tp=2"));
  for (const LayoutRule& rule : layout.rules()) {
    for (std::size_t i = 0; i < rule.match.size(); ++i) {
      if (!std::isdigit(static_cast<unsigned char>(rule.match[i]))) continue;
      ASSERT_GT(i, 0u);
      EXPECT_NE(rule.match[i - 1], '.') << rule.match;
      EXPECT_NE(rule.match[i - 1], '*') << rule.match;
    }
  }
}

TEST(Preset, TpCutsAlongItsAxisAlone) {
  const Layout layout = Layout::preset("tp", Mesh::parse("dp_shard=2,tp=4"));
  EXPECT_THAT(layout.resolve(tensor("l.0.q_proj.weight", {8, 8})).dims, ElementsAre(-1, 0));
  EXPECT_THAT(layout.resolve(tensor("l.0.o_proj.weight", {8, 8})).dims, ElementsAre(-1, 1));
  EXPECT_THAT(layout.resolve(tensor("other", {8, 8})).dims, ElementsAre(-1, -1));
}

TEST(Preset, Fsdp2OverTpCutsByTpFirst) {
  for (const char* name : {"fsdp2", "fsdp2+tp", "hsdp"}) {
    const Layout layout = Layout::preset(name, Mesh::parse("dp_replicate=2,dp_shard=3,tp=2"));
    const TensorLayout column = layout.resolve(tensor("l.0.q_proj.weight", {7, 8}));
    EXPECT_THAT(column.dims, ElementsAre(-1, 0, 0)) << name;
    EXPECT_THAT(column.order, ElementsAre(0, 2, 1)) << name;
    const TensorLayout row = layout.resolve(tensor("l.0.o_proj.weight", {7, 8}));
    EXPECT_THAT(row.dims, ElementsAre(-1, 0, 1)) << name;
    EXPECT_THAT(row.order, IsEmpty()) << name;  // it makes no difference there
    EXPECT_THAT(layout.resolve(tensor("other", {7})).dims, ElementsAre(-1, 0, -1)) << name;
    EXPECT_THAT(layout.resolve(tensor("step", {})).dims, ElementsAre(-1, -1, -1)) << name;
  }
  // Row 6 of 7 is on (dp 2, tp 1), and (2,0) is empty.
  const Mesh mesh = Mesh::parse("dp_shard=3,tp=2");
  const TensorLayout layout = Layout::preset("fsdp2", mesh).resolve(tensor("a.q_proj.bias", {7}));
  EXPECT_TRUE(local_shard(Shape{7}, mesh, layout, Dims{2, 0}).empty());
  EXPECT_EQ(local_shard(Shape{7}, mesh, layout, Dims{2, 1}).box.text(), "[6:7]");
  // Where tp is the outer axis it cuts first anyway.
  EXPECT_THAT(
      Layout::preset("fsdp2", Mesh::parse("tp=2,dp_shard=3")).resolve(tensor("a.q_proj.bias", {7})).order,
      IsEmpty());
}

TEST(Preset, Fsdp2OfOneTpRankHasNoTpRules) {
  const Layout layout = Layout::preset("fsdp2", Mesh::parse("dp_shard=4,tp=1"));
  EXPECT_THAT(layout.resolve(tensor("l.0.q_proj.weight", {8, 8})).dims, ElementsAre(0, -1));
  const TensorIndex index = index_of({tensor("other", {8})});
  EXPECT_THAT(layout.unknown_to_tp(index), IsEmpty());
  EXPECT_THAT(Layout::preset("fsdp2+tp", Mesh::parse("dp_shard=4,tp=1")).unknown_to_tp(index), IsEmpty());
}

TEST(Preset, NamesTheAxisAMeshLacks) {
  const struct {
    const char *name, *mesh, *lacks;
  } cases[] = {{"tp", "dp_shard=4", "axis tp"},       {"fsdp2+tp", "dp_shard=4", "axis tp"},
               {"fsdp2+tp", "tp=4", "axis dp_shard"}, {"fsdp1", "dp=4", "axis dp_shard"},
               {"zero3", "tp=4", "axis dp_shard"},    {"hsdp", "dp_shard=4,tp=2", "axis dp_replicate"}};
  for (const auto& c : cases) {
    Error error = thrown_error([&] { Layout::preset(c.name, Mesh::parse(c.mesh)); });
    EXPECT_EQ(error.status(), Status::usage);
    EXPECT_THAT(error.message(), AllOf(HasSubstr(c.name), HasSubstr(c.lacks), HasSubstr(c.mesh)));
  }
  EXPECT_THAT(thrown_error([] { Layout::preset("fsdp3", Mesh::parse("a=1")); }).message(),
              AllOf(HasSubstr("'fsdp3'"), HasSubstr("fsdp2+tp"), HasSubstr(".json")));
}

// By lists of rows: what each rank of (dp, tp) stores, and what SS(0,tp) S(0) says.
bool same_by_lists(std::uint64_t n, std::uint64_t dp, std::uint64_t tp) {
  using List = std::vector<std::uint64_t>;
  auto chunk = [](const List& list, std::uint64_t k, std::uint64_t r) {
    const std::uint64_t step = (list.size() + k - 1) / k;
    List out;
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      if (i / step == r) out.push_back(list[i]);
    }
    return out;
  };
  List all(n);
  for (std::uint64_t i = 0; i < n; ++i) all[i] = i;
  for (std::uint64_t i = 0; i < dp; ++i) {
    List of_dp;
    for (std::uint64_t j = 0; j < tp; ++j) {
      for (std::uint64_t row : chunk(chunk(all, tp, j), dp, i)) of_dp.push_back(row);
    }
    for (std::uint64_t j = 0; j < tp; ++j) {
      if (chunk(chunk(all, tp, j), dp, i) != chunk(of_dp, tp, j)) return false;
    }
  }
  return true;
}

TEST(Fsdp2Storage, DiffersFromTheFormulaWhereListsDo) {
  int differ = 0;
  for (std::uint64_t n = 0; n <= 40; ++n) {
    for (std::uint64_t dp = 1; dp <= 6; ++dp) {
      for (std::uint64_t tp = 1; tp <= 6; ++tp) {
        const bool same = same_by_lists(n, dp, tp);
        ASSERT_EQ(formula_is_storage(n, dp, tp), same) << n << " " << dp << " " << tp;
        differ += !same;
      }
    }
  }
  EXPECT_GT(differ, 50);
  EXPECT_FALSE(formula_is_storage(7, 3, 2));
  // Only the last, shorter chunk of TP tells these apart.
  EXPECT_FALSE(same_by_lists(55, 3, 9));
  EXPECT_FALSE(formula_is_storage(55, 3, 9));
  EXPECT_TRUE(formula_is_storage(1ull << 60, 1 << 14, 1 << 10));
  EXPECT_FALSE(formula_is_storage((1ull << 60) + 1, 1 << 14, 1 << 10));
}

TEST(Fsdp2Storage, NamesTheTensors) {
  TensorIndex index =
      index_of({tensor("a.q_proj.weight", {7, 8}), tensor("b.q_proj.weight", {12, 8}),
                tensor("c.o_proj.weight", {7, 8}), tensor("d.q_proj.bias", {7}), tensor("e", {7})});
  const Mesh mesh = Mesh::parse("dp_shard=3,tp=2");
  EXPECT_THAT(Layout::preset("fsdp2", mesh).storage_differs(index),
              ElementsAre("a.q_proj.weight", "d.q_proj.bias"));
  EXPECT_THAT(Layout::preset("tp", mesh).storage_differs(index), IsEmpty());
  // The explicit placements follow the formula, and say so too.
  Layout rules = Layout::from_json(R"json({"mesh": "dp=3,tp=2", "rules": [
      {"match": "*.weight", "placements": {"dp": "SS(-2,2)", "tp": "S(0)"}},
      {"match": "d*", "placements": {"dp": "SS(0,3)", "tp": "S(0)"}}]})json",
                                   "r.json", std::nullopt, 6);
  EXPECT_THAT(rules.storage_differs(index), ElementsAre("a.q_proj.weight", "c.o_proj.weight"));
  // A third axis on the dimension makes it something else than FSDP2 over TP.
  Layout three = Layout::from_json(
      R"json({"mesh": "dp=3,x=2,tp=2", "default": {"dp": "SS(0,2)", "x": "S(0)", "tp": "S(0)"}})json",
      "r.json", std::nullopt, 12);
  EXPECT_THAT(three.storage_differs(index), IsEmpty());
}

TEST(FlatBlock, EndsWithTheFirstNumber) {
  EXPECT_EQ(flat_block("model.layers.12.mlp.experts.3.w"), "model.layers.12");
  EXPECT_EQ(flat_block("model.norm.weight"), "");
  EXPECT_EQ(flat_block("h.0"), "h.0");
  EXPECT_EQ(flat_block("0.weight"), "0");
  EXPECT_EQ(flat_block("layer1.w2.weight"), "");
  EXPECT_EQ(flat_block("layers/3/kernel"), "layers/3");
  EXPECT_EQ(flat_block(""), "");
  EXPECT_EQ(flat_block("a..1"), "a..1");
}

TEST(Preset, Fsdp1FlattensABlockTogether) {
  const TensorIndex index = index_of({
      tensor("model.layers.1.a", {3, 3}),
      tensor("model.layers.0.a", {5}),
      tensor("model.norm", {4}),
      tensor("model.layers.1.scale", {2}, DType::f32),
      tensor("model.layers.1.step", {}),
      tensor("model.layers.1.b", {2, 4}),
      tensor("model.embed", {6, 2}),
      tensor("model.layers.10.a", {0, 3}),
  });
  const Layout layout = Layout::preset("fsdp1", Mesh::parse("dp_replicate=2,dp_shard=4"));
  const std::vector<TensorLayout> resolved = layout.resolve(index);
  auto place = [&](std::size_t t) {
    return fmt::format("{}+{} {}", resolved[t].flat_before, resolved[t].flat_total, resolved[t].part_of);
  };
  EXPECT_EQ(place(0), "0+17 model.layers.1. (bf16)");
  EXPECT_EQ(place(1), "0+5 model.layers.0. (bf16)");
  EXPECT_EQ(place(2), "0+16 the root (bf16)");
  EXPECT_EQ(place(3), "0+2 model.layers.1. (f32)");
  EXPECT_EQ(place(5), "9+17 model.layers.1. (bf16)");
  EXPECT_EQ(place(6), "4+16 the root (bf16)");
  EXPECT_EQ(place(7), "0+0 model.layers.10. (bf16)");
  EXPECT_THAT(resolved[0].dims, ElementsAre(-1, TensorLayout::kFlat));
  EXPECT_THAT(resolved[4].dims, ElementsAre(-1, -1));  // 0-d
  // 17 elements on 4 ranks are 5, 5, 5, 2: the second rank holds the end of a and the start of b.
  EXPECT_EQ(local_shard(Shape{3, 3}, layout.mesh(), resolved[0], Dims{1, 1}).box.elements(), 4u);
  EXPECT_EQ(local_shard(Shape{2, 4}, layout.mesh(), resolved[5], Dims{0, 1}).box.text(), "[0:1, 0:1]");
  EXPECT_EQ(
      layout.rule_text(index.tensors[5], resolved[5]),
      "preset fsdp1: dp_replicate=R dp_shard=F; flat with model.layers.1. (bf16): elements 9..17 of 17");
  // Alone it is a group of one.
  const TensorLayout alone = layout.resolve(index.tensors[5]);
  EXPECT_EQ(alone.flat_before, 0u);
  EXPECT_EQ(alone.flat_total, 8u);
  EXPECT_EQ(alone.part_of, "");
}

TEST(Preset, Fsdp1RefusesABlockBeyond64Bits) {
  const Layout layout = Layout::preset("fsdp1", Mesh::parse("dp_shard=4"));
  std::vector<TensorMeta> tensors;
  for (int i = 0; i < 9; ++i) tensors.push_back(tensor("w" + std::to_string(i), {1ull << 61}));
  Error error = thrown_error([&] { layout.resolve(index_of(tensors)); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), HasSubstr("w7"));
}

TEST(Preset, Zero3FlattensEachTensorAlone) {
  const TensorIndex index = index_of({tensor("l.0.a", {3, 3}), tensor("l.0.b", {5})});
  const Layout layout = Layout::preset("zero3", Mesh::parse("dp_shard=4"));
  for (const TensorLayout& resolved : layout.resolve(index)) {
    EXPECT_EQ(resolved.flat_before, 0u);
    EXPECT_EQ(resolved.part_of, "");
  }
  const TensorLayout a = layout.resolve(index)[0];
  EXPECT_EQ(a.flat_total, 9u);
  EXPECT_EQ(local_shard(Shape{3, 3}, layout.mesh(), a, Dims{3}).box.elements(), 0u);  // 3, 3, 3, 0
  EXPECT_EQ(layout.rule_text(index.tensors[0], a), "preset zero3: dp_shard=F");
}

TEST(RuleText, SaysWhichRuleOfAPresetItWas) {
  const Layout layout = Layout::preset("fsdp2+tp", Mesh::parse("dp_shard=3,tp=2"));
  auto text = [&](const TensorMeta& t) { return layout.rule_text(t, layout.resolve(t)); };
  EXPECT_EQ(text(tensor("m.layers.0.self_attn.q_proj.weight", {7, 8})),
            "preset fsdp2+tp, tp rule '*.[qkv]_proj.weight': dp_shard=S(0) tp=S(0); cut by tp before "
            "dp_shard, as FSDP2 "
            "stores it");
  EXPECT_EQ(text(tensor("m.layers.0.o_proj.weight", {7, 8})),
            "preset fsdp2+tp, tp rule '*.o_proj.weight': dp_shard=S(0) tp=S(1)");
  EXPECT_EQ(
      text(tensor("m.layers.0.o_proj.weight", {7})),
      "preset fsdp2+tp, tp rule '*.o_proj.weight': dp_shard=S(0) tp=R; the rule does not fit shape (7)");
  EXPECT_EQ(text(tensor("other", {7})), "preset fsdp2+tp, no tp rule knows it: dp_shard=S(0) tp=R");
  EXPECT_EQ(text(tensor("step", {})),
            "preset fsdp2+tp: dp_shard=R tp=R; a tensor without dimensions is replicated");
  const Layout plain = Layout::preset("fsdp2", Mesh::parse("dp_shard=3"));
  EXPECT_EQ(plain.rule_text(tensor("w", {7}), plain.resolve(tensor("w", {7}))),
            "preset fsdp2: dp_shard=S(0)");
}

}  // namespace
}  // namespace slabload
