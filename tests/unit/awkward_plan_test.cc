// Plans where sizes are awkward: nothing, one, primes, far more ranks than elements, far more elements than
// memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fakes/random_case.h"
#include "plan/planner.h"
#include "plan/validate.h"

namespace slabload {
namespace {

using slabload::testing::Random;

TensorMeta plain(const std::string& name, DType dtype, Shape shape) {
  TensorMeta tensor;
  tensor.name = tensor.path = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.stored_bytes = tensor.bytes();
  return tensor;
}

// All ranks' plans, one at a time through the validator.
void expect_valid(const TensorIndex& index, const Layout& layout, const PlanParams& params) {
  auto planner = Planner::make(index, layout, params);
  Validator validator(index, layout, params);
  for (std::uint64_t rank = 0; rank < layout.mesh().ranks(); ++rank) {
    const LoadPlan plan = planner->plan(rank);
    validator.add(plan);
    ASSERT_LE(plan.stage_bytes * plan.rounds_at_once, params.staging);
  }
  validator.finish();
}

Layout rules(const std::string& placements, const Mesh& mesh) {
  return Layout::from_json(
      fmt::format(R"j({{"rules": [{{"match": "*", "placements": {{{}}}}}]}})j", placements), "r.json", mesh,
      mesh.ranks());
}

constexpr const char* kStrategies[] = {"slab", "linear", "auto"};

TEST(AwkwardPlan, ATrillionBytesByEveryPlacement) {
  TensorIndex index;
  index.tensors = {plain("huge.weight", DType::bf16, Shape{1000003, 100003}),
                   plain("flat", DType::u8, Shape{100000000003}),
                   plain("thin", DType::f32, Shape{2, 7, 5000000029})};
  const Mesh mesh({{"a", 3}, {"b", 5}});
  for (const char* placements : {"", R"j("a": "S(0)")j", R"j("b": "S(-1)")j", R"j("a": "S(0)", "b": "S(0)")j",
                                 R"j("a": "SS(0,2)", "b": "S(-1)")j", R"j("b": "F")j", R"j("a": "F")j"}) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(fmt::format("{} {}", strategy, placements));
      PlanParams params;
      params.strategy = strategy;
      params.staging = std::uint64_t{8} << 30;
      params.round_bytes = std::uint64_t{4} << 30;
      if (params.strategy == "auto") params.costs.fabric_rank = 1e6;
      expect_valid(index, rules(placements, mesh), params);
      if (HasFatalFailure()) return;
    }
  }
}

// Parameters far beyond what anyone needs: still no item of 1 GiB.
TEST(AwkwardPlan, HugeRoundsHaveNoHugeItems) {
  TensorIndex index;
  for (int t = 0; t < 3000; ++t) {
    index.tensors.push_back(plain(fmt::format("t{:05}", t), t % 1000 == 999 ? DType::f8_e4m3 : DType::bf16,
                                  Shape{static_cast<std::uint64_t>(300 + t / 1000), 1024}));
  }
  for (int t = 0; t < 12; ++t) {
    index.tensors.push_back(
        plain(fmt::format("u{}", t), DType::f8_e5m2, Shape{static_cast<std::uint64_t>(40000 + t), 4096}));
  }
  std::uint64_t offset = 0;
  for (TensorMeta& tensor : index.tensors) {
    tensor.offset = offset;
    offset += tensor.bytes();
  }
  int cases = 0;
  for (const auto& mesh :
       {Mesh({{"dp_shard", 2}}), Mesh({{"dp_shard", 1}}), Mesh({{"dp_replicate", 3}, {"dp_shard", 2}})}) {
    for (const char* preset : {"replicate", "fsdp2", "zero3"}) {
      for (const char* strategy : kStrategies) {
        const std::uint64_t min_read = std::uint64_t{1} << (cases % 2 == 0 ? 20 : 36);
        PlanParams params;
        params.strategy = strategy;
        params.staging = std::uint64_t{64} << 30;
        params.round_bytes = std::uint64_t{32} << 30;
        params.min_read = min_read;
        if (++cases % 3 == 0) params.cast = DType::f32;
        if (cases % 2 == 0) params.costs.message_s = 1.0;
        SCOPED_TRACE(fmt::format("{} {} {} {}", preset, strategy, min_read, mesh.text()));
        ASSERT_NO_THROW(expect_valid(index, Layout::preset(preset, mesh), params));
      }
    }
  }
}

TEST(AwkwardPlan, ThousandsOfRanksForAFewElements) {
  TensorIndex index;
  index.tensors = {plain("a", DType::bf16, Shape{8, 16}),  plain("b", DType::f32, Shape{7}),
                   plain("none", DType::f32, Shape{0, 9}), plain("c", DType::f32, Shape{3, 1, 5}),
                   plain("one", DType::f64, Shape{1}),     plain("scalar", DType::i64, Shape{}),
                   plain("d", DType::u8, Shape{101, 103}), plain("inner", DType::u8, Shape{5, 0})};
  for (std::size_t t = 0, offset = 0; t < index.tensors.size(); offset += index.tensors[t++].bytes())
    index.tensors[t].offset = offset;
  const Mesh mesh({{"a", 3}, {"b", 1}, {"c", 1009}});
  Random random(2);
  for (const char* placements : {"", R"j("c": "S(0)")j", R"j("c": "F")j", R"j("a": "F")j",
                                 R"j("a": "S(0)", "b": "S(0)", "c": "S(-1)")j",
                                 R"j("a": "SS(0,65536)", "c": "S(0)")j", R"j("c": "SS(-1,3)")j"}) {
    for (const char* strategy : kStrategies) {
      const std::uint64_t min_read = random.of<std::uint64_t>({0, 1, 100, 1 << 20});
      SCOPED_TRACE(fmt::format("{} {} {}", strategy, placements, min_read));
      TensorIndex some = index;
      // What has no dimension can't be sharded.
      if (*placements != 0) some.tensors.erase(some.tensors.begin() + 5);
      PlanParams params;
      params.strategy = strategy;
      params.min_read = min_read;
      params.nodes = NodeMap(8);
      ASSERT_NO_THROW(expect_valid(some, rules(placements, mesh), params));
    }
  }
}

// All kinds of axes of one rank, and tensors of up to 32 dimensions and 16 mesh axes, through the same proof
// as the rest.
TEST(AwkwardPlan, ThirtyTwoDimensionsOnSixteenAxes) {
  Random random(8);
  for (int i = 0; i < 24; ++i) {
    const std::string strategy = kStrategies[random.below(3)];
    std::vector<MeshAxis> axes;
    std::uint64_t ranks = 1;
    for (int a = 0; a < 16; ++a) {
      std::uint64_t size = random.one_in(4) ? random.of<std::uint64_t>({2, 3}) : 1;
      if (ranks * size > 24) size = 1;
      ranks *= size;
      axes.push_back({fmt::format("m{}", a), size});
    }
    const Mesh mesh(axes);
    TensorIndex index;
    Shape shape;
    for (int d = 0; d < 32; ++d)
      shape.lengths().push_back(random.one_in(3) ? random.of<std::uint64_t>({2, 3, 5}) : 1);
    index.tensors = {plain("w", random.of({DType::u8, DType::f32}), shape), plain("v", DType::bf16, shape)};
    index.tensors[1].offset = index.tensors[0].bytes();
    std::string placements;
    for (int a = 0; a < 16; ++a) {
      if (random.one_in(2)) continue;
      const auto dim = static_cast<int>(random.below(32));
      placements += fmt::format("{}\"m{}\": \"", placements.empty() ? "" : ", ", a);
      placements += random.one_in(4) ? fmt::format("SS({},2)\"", dim)
                                     : fmt::format("S({})\"", random.one_in(2) ? dim : dim - 32);
    }
    if (i % 10 == 0) placements = R"j("m3": "F")j";
    PlanParams params;
    params.strategy = strategy;
    params.min_read = random.of<std::uint64_t>({0, 100, 10000, 1 << 20});
    params.round_bytes = random.of<std::uint64_t>({10000, 64 << 20});
    SCOPED_TRACE(fmt::format("{} {} {} {}", strategy, placements, mesh.text(), shape.text()));
    ASSERT_NO_THROW(expect_valid(index, rules(placements, mesh), params));
  }
}

// A shard of as many runs as there can be, and the proof of fewer.
TEST(AwkwardPlan, ManyRunsOfARank) {
  TensorIndex index;
  index.tensors = {plain("w", DType::bf16, Shape{65536 * 4, 4}), plain("v", DType::f32, Shape{3, 262144})};
  index.tensors[1].offset = index.tensors[0].bytes();
  for (int dim : {0, 1}) {
    for (const char* strategy : {"linear", "auto"}) {
      PlanParams params;
      params.strategy = strategy;
      SCOPED_TRACE(fmt::format("{} {}", strategy, dim));
      const Layout most = rules(fmt::format(R"j("a": "SS({},65536)")j", dim), Mesh({{"a", 4}}));
      EXPECT_GT(Planner::make(index, most, params)->plan(3).shard_bytes, 0u);
      const Layout many = rules(fmt::format(R"j("a": "SS({},4096)")j", dim), Mesh({{"a", 4}, {"b", 2}}));
      ASSERT_NO_THROW(expect_valid(index, many, params));
    }
  }
}

}  // namespace
}  // namespace slabload
