// Which part of a tensor a rank holds: the worked examples, and torch.chunk's rule by brute force.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>

#include "layout/shard.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorMeta f32_tensor(const std::string& name, Shape shape) {
  TensorMeta t;
  t.name = name;
  t.shape = std::move(shape);
  return t;
}

// "size@offset" of dimension 0 on every rank, as the worked examples are written.
std::vector<std::string> rows(std::uint64_t n, const std::string& mesh_text, std::vector<int> dims) {
  Mesh mesh = Mesh::parse(mesh_text);
  std::vector<std::string> out;
  for (std::uint64_t rank = 0; rank < mesh.ranks(); ++rank) {
    Box box = local_box(Shape{n}, mesh, TensorLayout{dims, 0}, mesh.coordinate(rank));
    out.push_back(std::to_string(box.extent[0]) + "@" + std::to_string(box.start[0]));
  }
  return out;
}

TEST(LocalBox, WorkedExamples) {
  EXPECT_THAT(rows(5, "a=4", {0}), ElementsAre("2@0", "2@2", "1@4", "0@5"));
  EXPECT_THAT(rows(2, "a=8", {0}), ElementsAre("1@0", "1@1", "0@2", "0@2", "0@2", "0@2", "0@2", "0@2"));
  EXPECT_THAT(rows(5, "a=2,b=2", {0, 0}), ElementsAre("2@0", "1@2", "1@3", "1@4"));
  EXPECT_THAT(rows(2, "a=4,b=2", {0, 0}),
              ElementsAre("1@0", "0@2", "1@1", "0@2", "0@2", "0@2", "0@2", "0@2"));
  EXPECT_THAT(rows(7, "dp_replicate=2,dp_shard=4", {-1, 0}),
              ElementsAre("2@0", "2@2", "2@4", "1@6", "2@0", "2@2", "2@4", "1@6"));
}

TEST(LocalBox, CutsInnerDimensionsToo) {
  Mesh mesh = Mesh::parse("dp=2,tp=2");
  TensorLayout layout{{0, 1}, 0};
  EXPECT_EQ(local_box(Shape{4, 6}, mesh, layout, Dims{0, 0}).text(), "[0:2, 0:3]");
  EXPECT_EQ(local_box(Shape{4, 6}, mesh, layout, Dims{0, 1}).text(), "[0:2, 3:6]");
  EXPECT_EQ(local_box(Shape{4, 6}, mesh, layout, Dims{1, 1}).text(), "[2:4, 3:6]");
  EXPECT_EQ(local_box(Shape{}, mesh, TensorLayout{{-1, -1}, 0}, Dims{1, 1}), Box{});
  EXPECT_TRUE(local_box(Shape{0, 6}, mesh, layout, Dims{0, 0}).empty());
}

// torch.chunk(range(n), k): pieces of ceil(n/k) until nothing is left; what is missing is empty.
std::vector<std::vector<std::uint64_t>> torch_chunks(const std::vector<std::uint64_t>& list,
                                                     std::uint64_t k) {
  std::vector<std::vector<std::uint64_t>> out(k);
  std::uint64_t step = (list.size() + k - 1) / k;
  for (std::size_t i = 0; i < list.size(); ++i) out[i / step].push_back(list[i]);
  return out;
}

TEST(TorchChunk, EqualsTheDefinition) {
  for (std::uint64_t n = 0; n <= 40; ++n) {
    for (std::uint64_t k = 1; k <= 45; ++k) {
      std::vector<std::uint64_t> list(n);
      std::iota(list.begin(), list.end(), 100u);
      auto chunks = torch_chunks(list, k);
      for (std::uint64_t part = 0; part < k; ++part) {
        ChunkSpan span = torch_chunk({100, n}, k, part);
        ASSERT_EQ(span.extent, chunks[part].size()) << n << " " << k << " " << part;
        ASSERT_EQ(span.start, chunks[part].empty() ? 100 + n : chunks[part].front());
      }
    }
  }
}

TEST(TorchChunk, TakesHugeLengths) {
  ChunkSpan last = torch_chunk({0, UINT64_MAX}, 2, 1);
  EXPECT_EQ(last.start, 1ull << 63);
  EXPECT_EQ(last.extent, (1ull << 63) - 1);
  EXPECT_EQ(torch_chunk({0, UINT64_MAX - 1}, 2147483647, 2147483646).start +
                torch_chunk({0, UINT64_MAX - 1}, 2147483647, 2147483646).extent,
            UINT64_MAX - 1);
}

// The box of a rank by index lists: each placement splits the list of its dimension again.
Box reference_box(const Shape& shape, const Mesh& mesh, const std::vector<int>& dims, const Dims& at) {
  std::vector<std::vector<std::uint64_t>> lists(shape.ndim());
  for (std::size_t d = 0; d < shape.ndim(); ++d) {
    lists[d].resize(shape[d]);
    std::iota(lists[d].begin(), lists[d].end(), 0u);
  }
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    if (dims[axis] < 0) continue;
    auto& list = lists[static_cast<std::size_t>(dims[axis])];
    list = torch_chunks(list, mesh.axis(axis).size)[at[axis]];
  }
  Box box = whole_box(shape);
  for (std::size_t d = 0; d < shape.ndim(); ++d) {
    box.start[d] = lists[d].empty() ? shape[d] : lists[d].front();
    box.extent[d] = lists[d].size();
  }
  return box;
}

struct Case {
  Shape shape;
  Mesh mesh;
  TensorLayout layout;
};

Case random_case(std::mt19937_64& random) {
  std::vector<MeshAxis> axes(1 + random() % 3);
  for (std::size_t i = 0; i < axes.size(); ++i)
    axes[i] = {std::string(1, static_cast<char>('a' + i)), 1 + random() % 4};
  Dims lengths(random() % 4);
  for (auto& n : lengths) n = random() % 9;
  TensorLayout layout;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    layout.dims.push_back(static_cast<int>(random() % (lengths.size() + 1)) - 1);
  }
  return {Shape(lengths), Mesh(axes), layout};
}

TEST(LocalBox, EqualsIndexListsOnRandomLayouts) {
  std::mt19937_64 random(14);
  for (int i = 0; i < 2000; ++i) {
    Case c = random_case(random);
    std::uint64_t covered = 0;
    for (std::uint64_t rank = 0; rank < c.mesh.ranks(); ++rank) {
      Dims at = c.mesh.coordinate(rank);
      Box box = local_box(c.shape, c.mesh, c.layout, at);
      ASSERT_EQ(box, reference_box(c.shape, c.mesh, c.layout.dims, at))
          << c.shape.text() << c.mesh.text() << box.text();
      covered += box.elements();
    }
    std::uint64_t replicas = 1;
    for (std::size_t axis = 0; axis < c.mesh.ndim(); ++axis) {
      if (c.layout.dims[axis] < 0) replicas *= c.mesh.axis(axis).size;
    }
    ASSERT_EQ(covered, replicas * c.shape.elements());
  }
}

TEST(ForEachShard, VisitsEachShardThatMeetsTheBoxOnce) {
  std::mt19937_64 random(15);
  for (int i = 0; i < 2000; ++i) {
    Case c = random_case(random);
    Box within = whole_box(c.shape);
    if (i % 3 != 0) {
      for (std::size_t d = 0; d < within.ndim(); ++d) {
        within.start[d] = random() % (c.shape[d] + 1);
        within.extent[d] = random() % (c.shape[d] - within.start[d] + 1);
      }
    }
    std::map<std::string, Dims> expected;  // box text to the lowest coordinate that holds it
    for (std::uint64_t rank = c.mesh.ranks(); rank-- > 0;) {
      Dims at = c.mesh.coordinate(rank);
      Box box = reference_box(c.shape, c.mesh, c.layout.dims, at);
      const Box met = intersect(box, within);
      if (!met.empty()) expected[met.text()] = at;
    }
    std::map<std::string, Dims> visited;
    for_each_shard(c.shape, c.mesh, c.layout, within, [&](const Dims& at, const Box& box) {
      ASSERT_TRUE(visited.emplace(box.text(), at).second) << "visited twice: " << box.text();
    });
    ASSERT_EQ(visited, expected) << c.shape.text() << c.mesh.text() << within.text();
  }
}

TEST(ForEachShard, CostsWhatItVisits) {
  Mesh mesh = Mesh::parse("a=65536,b=16384");
  int visits = 0;
  for_each_shard(Shape{1ull << 40}, mesh, TensorLayout{{0, 0}, 0}, Box{{5}, {2}},
                 [&](const Dims& at, const Box& box) {
                   ++visits;
                   EXPECT_EQ(at, (Dims{0, 0}));
                   EXPECT_EQ(box.text(), "[5:7]");
                 });
  EXPECT_EQ(visits, 1);
}

TEST(ReplicaMask, MarksAxesThatReplicate) {
  Mesh mesh = Mesh::parse("a=2,b=1,c=3");
  EXPECT_EQ(replica_mask(mesh, TensorLayout{{-1, -1, -1}, 0}), 0b101u);  // b has one rank only
  EXPECT_EQ(replica_mask(mesh, TensorLayout{{0, -1, -1}, 0}), 0b100u);
  EXPECT_EQ(replica_mask(mesh, TensorLayout{{-1, 0, 0}, 0}), 0b001u);
  EXPECT_EQ(replica_mask(mesh, TensorLayout{{0, 0, 1}, 0}), 0u);
}

TEST(Placement, ParsesAndPrints) {
  EXPECT_EQ(Placement::parse("R").text(), "R");
  EXPECT_EQ(Placement::parse("S(0)").text(), "S(0)");
  EXPECT_EQ(Placement::parse("S(-1)").dim, -1);
  EXPECT_EQ(Placement::parse("S(12)").kind, Placement::Kind::shard);
  for (const char* text : {"",          "r",
                           "S",         "S()",
                           "S(x)",      "S(1",
                           "S(1 )",     "S(0)x",
                           "s(0)",      "RR",
                           "S(+1)",     "SS",
                           "SS()",      "SS(0)",
                           "SS(,2)",    "SS(0,)",
                           "SS(0,x)",   "SS(0,-1)",
                           "SS(0,0)",   "SS(0,65537)",
                           "SS(0,2,2)", "SS(0,99999999999999999999)",
                           "f",         "FF",
                           "F(0..4)"}) {
    EXPECT_EQ(thrown_error([&] { Placement::parse(text); }).status(), Status::usage) << text;
  }
  EXPECT_EQ(Placement::parse("SS(-1,65536)").text(), "SS(-1,65536)");
  EXPECT_EQ(Placement::parse("SS(0, 2)").text(), "SS(0,2)");
  EXPECT_EQ(Placement::parse("F").text(), "F");
  EXPECT_THAT(thrown_error([] { Placement::parse("SS(0,0)"); }).message(), HasSubstr("1..65536"));
  for (const char* text : {"P", "Partial", "P(sum)"})
    EXPECT_THAT(thrown_error([&] { Placement::parse(text); }).message(), HasSubstr("summands")) << text;
}

TEST(Preset, Fsdp2ShardsTheFirstDimension) {
  Mesh mesh = Mesh::parse("dp_replicate=2,dp_shard=4");
  for (const char* name : {"fsdp2", "hsdp"}) {
    Layout layout = Layout::preset(name, mesh);
    EXPECT_EQ(layout.name(), name);
    EXPECT_THAT(layout.resolve(f32_tensor("w", {8, 8})).dims, ElementsAre(-1, 0));
    EXPECT_THAT(layout.resolve(f32_tensor("step", {})).dims, ElementsAre(-1, -1));  // 0-d replicates
  }
  Layout replicate = Layout::preset("replicate", mesh);
  EXPECT_THAT(replicate.resolve(f32_tensor("w", {8, 8})).dims, ElementsAre(-1, -1));
  EXPECT_THAT(Layout::preset("fsdp2", Mesh::parse("dp_shard=3")).resolve(f32_tensor("w", {8})).dims,
              ElementsAre(0));
}

TEST(Preset, RefusesAMeshThatLacksTheAxis) {
  Error error = thrown_error([] { Layout::preset("hsdp", Mesh::parse("dp_shard=4")); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("dp_replicate"), HasSubstr("dp_shard=4")));
  EXPECT_THAT(thrown_error([] { Layout::preset("fsdp2", Mesh::parse("x=4")); }).message(),
              HasSubstr("dp_shard"));
  EXPECT_EQ(thrown_error([] { Layout::preset("nosuch", Mesh::parse("x=4")); }).status(), Status::usage);
  EXPECT_EQ(Layout::preset("replicate", Mesh::parse("x=4")).mesh().ranks(), 4u);
}

constexpr const char* kRules = R"json({
  "mesh": {"dp": 2, "tp": 3},
  "rules": [
    {"match": "*.qkv.weight", "placements": {"dp": "S(0)", "tp": "S(0)"}},
    {"match": "*.weight", "placements": {"tp": "S(-1)"}},
    {"match": "never.*", "placements": {}}
  ],
  "default": {"dp": "S(0)"}
})json";

TEST(RulesFile, TheFirstMatchWinsAndAxesLeftOutReplicate) {
  Layout layout = Layout::from_json(kRules, "rules.json", std::nullopt, 6);
  EXPECT_EQ(layout.mesh().text(), "dp=2,tp=3");
  EXPECT_EQ(layout.name(), "rules.json");
  TensorLayout qkv = layout.resolve(f32_tensor("l.0.qkv.weight", {6, 4}));
  EXPECT_THAT(qkv.dims, ElementsAre(0, 0));
  EXPECT_EQ(qkv.rule, 0u);
  TensorLayout weight = layout.resolve(f32_tensor("l.0.mlp.weight", {6, 4, 2}));
  EXPECT_THAT(weight.dims, ElementsAre(-1, 2));
  EXPECT_EQ(weight.rule, 1u);
  TensorLayout bias = layout.resolve(f32_tensor("l.0.bias", {6}));
  EXPECT_THAT(bias.dims, ElementsAre(0, -1));
  EXPECT_EQ(bias.rule, 3u);
}

TEST(RulesFile, ReportsRulesThatMatchNothing) {
  Layout layout = Layout::from_json(kRules, "rules.json", std::nullopt, 6);
  TensorIndex index;
  index.tensors = {f32_tensor("a.qkv.weight", {2}), f32_tensor("b", {2})};
  auto unused = [&] {
    std::vector<std::string> out;
    for (const Layout::UnusedRule& rule : layout.unused_rules(index)) out.push_back(rule.match + " < " + rule.earlier);
    return out;
  };
  EXPECT_THAT(unused(), ElementsAre("*.weight < rule 1 '*.qkv.weight'", "never.* < "));
  index.tensors.push_back(f32_tensor("never.x", {2}));
  index.tensors.push_back(f32_tensor("c.weight", {2, 2, 2}));
  EXPECT_THAT(unused(), IsEmpty());
}

TEST(RulesFile, TheMeshComesFromTheCommandLineFirst) {
  Mesh given = Mesh::parse("tp=2,dp=5");
  EXPECT_EQ(Layout::from_json(kRules, "r", given, 10).mesh().text(), "tp=2,dp=5");
  EXPECT_EQ(
      Layout::from_json(R"json({"mesh": "x=3,y=2", "default": {}})json", "r", std::nullopt, 6).mesh().text(),
      "x=3,y=2");
  EXPECT_EQ(Layout::from_json(R"json({"default": {}})json", "r", std::nullopt, 6).mesh().text(),
            "dp_shard=6");
}

TEST(RulesFile, RefusesATensorTheRuleDoesNotFit) {
  Layout layout = Layout::from_json(kRules, "rules.json", std::nullopt, 6);
  // A scalar that a rule shards is an error; presets alone replicate it.
  for (const auto& [name, shape, rule, axis] :
       {std::tuple{"x.weight", Shape{}, "*.weight", "tp"}, std::tuple{"scalar", Shape{}, "default", "dp"}}) {
    Error error = thrown_error([&, name = name, shape = shape] { layout.resolve(f32_tensor(name, shape)); });
    EXPECT_EQ(error.status(), Status::usage);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("rules.json"), HasSubstr(name), HasSubstr(shape.text()),
                                       HasSubstr(rule), HasSubstr("axis " + std::string(axis))));
  }
  Layout deep =
      Layout::from_json(R"json({"mesh": "a=2", "rules": [{"match": "*", "placements": {"a": "S(2)"}}]})json",
                        "r", std::nullopt, 2);
  EXPECT_THAT(thrown_error([&] {
                deep.resolve(f32_tensor("w", {3, 4}));
              }).message(),
              AllOf(HasSubstr("S(2)"), HasSubstr("(3, 4)")));
  EXPECT_THAT(deep.resolve(f32_tensor("w", {3, 4, 5})).dims, ElementsAre(2));
}

TEST(RulesFile, RefusesATensorWithoutARule) {
  Layout layout = Layout::from_json(
      R"json({"mesh": "a=2", "rules": [{"match": "x*", "placements": {}}]})json", "r.json", std::nullopt, 2);
  Error error = thrown_error([&] { layout.resolve(f32_tensor("y\x1b", {3})); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("r.json"), HasSubstr("y\\x1b"), HasSubstr("(3)")));
}

TEST(RulesFile, CountsTheTensorsWithoutARule) {
  Layout layout = Layout::from_json(
      R"json({"mesh": "a=2", "rules": [{"match": "x*", "placements": {}}]})json", "r.json", std::nullopt, 2);
  TensorIndex index;
  for (const char* name : {"x1", "y1", "y2", "x2", "y3", "y4", "y5"})
    index.tensors.push_back(f32_tensor(name, {3}));
  EXPECT_EQ(thrown_error([&] { layout.resolve(index); }).message(),
            "r.json: no rule matches 5 of 7 tensors and there is no default: y1 (3), y2 (3), y3 (3) and 2 more");
  index.tensors.resize(2);
  EXPECT_EQ(thrown_error([&] { layout.resolve(index); }).message(),
            "r.json: no rule matches 1 of 2 tensors and there is no default: y1 (3)");
}

TEST(RulesFile, TakesStridedAndFlatPlacements) {
  Layout layout = Layout::from_json(R"json({"mesh": "r=2,dp=3,tp=2", "rules": [
      {"match": "s", "placements": {"dp": "SS(-1,2)", "tp": "S(-1)"}},
      {"match": "f*", "placements": {"dp": "F"}},
      {"match": "g", "placements": {"dp": "F", "tp": "S(0)"}},
      {"match": "h", "placements": {"dp": "F", "tp": "F"}},
      {"match": "wide", "placements": {"dp": "SS(0,300)", "tp": "SS(1,300)"}}]})json",
                                    "r.json", std::nullopt, 12);
  TensorLayout strided = layout.resolve(f32_tensor("s", {4, 7}));
  EXPECT_THAT(strided.dims, ElementsAre(-1, 1, 1));
  EXPECT_THAT(strided.factors, ElementsAre(0, 2, 0));
  EXPECT_THAT(strided.order, IsEmpty());
  EXPECT_EQ(layout.rule_text(f32_tensor("s", {4, 7}), strided), "rule 1 's': r=R dp=SS(-1,2) tp=S(-1)");
  TensorLayout flat = layout.resolve(f32_tensor("f", {4, 7}));
  EXPECT_THAT(flat.dims, ElementsAre(-1, TensorLayout::kFlat, -1));
  EXPECT_EQ(flat.flat_total, 28u);
  EXPECT_EQ(layout.rule_text(f32_tensor("f", {4, 7}), flat), "rule 2 'f*': r=R dp=F tp=R");
  const struct {
    const char* name;
    Shape shape;
    std::vector<const char*> says;
  } cases[] = {
      {"s", {}, {"rule 1 's'", "SS(-1,2) on axis dp", "shape ()", "only replicated"}},
      {"f", {}, {"rule 2 'f*'", "F on axis dp", "only replicated"}},
      {"g", {4}, {"rule 3 'g'", "F on axis dp", "tensor g", "no other axis"}},
      {"h", {4}, {"rule 4 'h'", "F on axis dp", "no other axis"}},
      {"wide", {4}, {"rule 5 'wide'", "SS(1,300) on axis tp", "shape (4)"}},
      {"wide", {4, 4}, {"rule 5 'wide'", "SS(1,300) on axis tp", "above 65536"}},
  };
  for (const auto& c : cases) {
    Error error = thrown_error([&] { layout.resolve(f32_tensor(c.name, c.shape)); });
    EXPECT_EQ(error.status(), Status::usage);
    for (const char* part : c.says) EXPECT_THAT(error.message(), HasSubstr(part)) << c.name;
  }
}

TEST(RulesFile, NamesTheFaultyRule) {
  struct {
    const char* text;
    const char* reason;
  } cases[] = {
      {R"json({"default": {}, "rules": [{"match": "x*", "placements": {}}, {"match": "a[]", "placements": {}}]})json",
       "rule 2: 'a[]' is not a glob"},
      {R"json({"default": {}, "rules": [{"match": "[", "placements": {}}]})json", "rule 1: '[' is not a glob"},
      {R"json({"default": {}, "rename": [{"match": "a\\", "replace": "b"}]})json", "rename 1: "},
      {R"json({"mesh": {"a": 2, "a": 3}, "default": {}})json", "\"a\" is given twice"},
      {R"json({"default": {"a": "S(0)", "a": "R"}})json", "\"a\" is given twice"},
      {R"json({"default": {}, "rules": [], "default": {}})json", "\"default\" is given twice"},
      {R"json({"mesh": {"a\nb": 2}, "default": {}})json", "is no name for an axis"},
      {"[]", "JSON object"},
      {R"json({"mesh": "a=2"})json", "neither rules nor a default"},
      {R"json({"mesh": 5, "default": {}})json", "\"mesh\""},
      {R"json({"mesh": {"a": -2}, "default": {}})json", "axis a"},
      {R"json({"mesh": {"a": 0}, "default": {}})json", "size 0"},
      {R"json({"mesh": "a=2", "rules": {}})json", "not a list"},
      {R"json({"mesh": "a=2", "rule": [], "default": {}})json", "unknown key \"rule\""},
      {R"json({"mesh": "a=2", "rules": [{"match": "x", "placements": {}}, {"match": "y"}]})json", "rule 2"},
      {R"json({"mesh": "a=2", "rules": [{"match": "x", "placements": {}, "axis": 1}]})json", "\"axis\""},
      {R"json({"mesh": "a=2", "rules": [{"match": "", "placements": {}}]})json", "empty glob"},
      {R"json({"mesh": "a=2", "rules": [{"match": "x*", "placements": {"b": "R"}}]})json", "axis b"},
      {R"json({"mesh": "a=2", "rules": [{"match": "x*", "placements": {"a": 0}}]})json", "axis a"},
      {R"json({"mesh": "a=2", "rules": [{"match": "x*", "placements": {"a": "Q"}}]})json", "rule 1 ('x*')"},
      {R"json({"mesh": "a=2", "rules": [{"match": "x*", "placements": ["R"]}]})json", "placements"},
      {R"json({"mesh": "a=2", "default": {"a": "P"}})json", "default"},
      {R"json({"mesh": "a=2", "default": {"a": "SS(0,0)"}})json", "default: axis a: placement 'SS(0,0)'"},
      {R"json({"mesh": "a=2", "rules": [{"match": "x\u0000*", "placements": {}}]})json", "zero byte"},
      {R"json({"mesh": "a=2", "default": {}, "rename": 1})json", "\"rename\""},
      {R"json({"mesh": "a=2", "default": {}, "alias": [{}]})json", "alias 1"},
  };
  for (const auto& c : cases) {
    Error error = thrown_error([&] { Layout::from_json(c.text, "r.json", std::nullopt, 2); });
    EXPECT_EQ(error.status(), Status::usage) << c.text;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("r.json"), HasSubstr(c.reason))) << c.text;
  }
}

// Lines and columns counted by hand, as an editor shows them.
TEST(RulesFile, SaysWhereItIsNoJson) {
  struct {
    std::string text;
    const char* reason;
  } cases[] = {
      {"", "the file is empty"},
      {"\n \n", "the file is empty"},
      {"{", "line 1, column 2: the file ends here"},
      {"{\"rules\": [\n  {\"match\": \"*\"\n", "line 2, column 16: the file ends here"},
      {"{\"default\": {},}", "line 1, column 16: '}': a ',' stands before this"},
      {"{\"rules\": [\n],\n}", "line 3, column 1: '}': a ',' stands before this"},
      {"{\"rules\": [1,]}", "line 1, column 14: ']': a ',' stands before this"},
      {"{\"mesh\": \"a=2\"\n \"default\": {}}", "line 2, column 2: a ',' or '}' is missing before '\"default\"'"},
      {"{\"rules\": [{} {}]}", "line 1, column 15: a ',' or ']' is missing before '{'"},
      {"{\"mesh\" 1}", "line 1, column 9: a ':' is missing before '1'"},
      {"{mesh: 1}", "line 1, column 2: 'mesh' stands where a key in double quotes is expected"},
      {"{\"mesh\": tru}", "line 1, column 10: 'tru' is neither a number nor true"},
      {"{\"mesh\": a=2}", "line 1, column 10: 'a=2' is neither a number nor true"},
      {"{\"mesh\":}", "line 1, column 9: '}' stands where a value is expected"},
      {"{\"mesh\": \"a=2}", "line 1, column 10: the string that begins here has no closing quote"},
      {"{\"mesh\": \"a\n\"}", "line 1, column 12: a string holds a line break"},
      {"{\"rules\": [{\"match\": \"x\\[\"}]}", "line 1, column 25: in a string"},
      {"{\"\xc3\xa4\": x}", "line 1, column 7: 'x' is neither"},
      {"{\"mesh\": \"\xff\"}", "line 1, column 11: this is not UTF-8"},
      {" }", "line 1, column 2: '}' stands where a value is expected"},
      {"{}\n}", "line 2, column 1: '}' follows the end"},
      {"// mine\n{}", "line 1, column 1: JSON has no comments"},
      {"{\"mesh\": 1e999}", "a number in it is too large"},
      {std::string("{\n\0}", 4), "line 2, column 1: a zero byte"},
  };
  for (const auto& c : cases) {
    Error error = thrown_error([&] { Layout::from_json(c.text, "r.json", std::nullopt, 2); });
    EXPECT_EQ(error.status(), Status::usage) << c.text;
    EXPECT_THAT(error.message(), HasSubstr(std::string("r.json: not JSON: ") + c.reason)) << c.text;
    EXPECT_EQ(error.message().find("json.exception"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace slabload
