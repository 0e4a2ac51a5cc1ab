// The cost model: what `auto` takes is never worse by it than any single strategy, over real models, meshes
// and costs.
#include "plan/way_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "fakes/random_case.h"
#include "fakes/tables.h"
#include "index/table.h"
#include "plan/simulate.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::kTables;
using slabload::testing::Random;
using slabload::testing::table;
using slabload::testing::thrown_error;
using ::testing::HasSubstr;

struct Meshed {
  const char* preset;
  std::vector<MeshAxis> axes;
};

// Meshes of `ranks` ranks.
std::vector<Meshed> meshes(std::uint64_t ranks) {
  std::vector<Meshed> out{{"fsdp2", {{"dp_shard", ranks}}},
                          {"replicate", {{"dp_shard", ranks}}},
                          {"tp",
                           {{"dp_replicate", ranks / std::min<std::uint64_t>(ranks, 8)},
                            {"tp", std::min<std::uint64_t>(ranks, 8)}}},
                          {"zero3", {{"dp_shard", ranks}}},
                          {"fsdp1", {{"dp_shard", ranks}}}};
  if (ranks % 4 == 0) {
    out.push_back({"hsdp", {{"dp_replicate", ranks / 4}, {"dp_shard", 4}}});
    out.push_back({"hsdp", {{"dp_replicate", 4}, {"dp_shard", ranks / 4}}});
    out.push_back({"fsdp2+tp", {{"dp_shard", ranks / 4}, {"tp", 4}}});
  }
  return out;
}

// From what no machine is too slow for to what none is fast enough for; the fabric only if `fabric`.
Costs random_costs(Random& random, bool fabric) {
  Costs costs;
  costs.request_s = random.of({0.0, 1e-6, 0.5e-3, 20e-3});
  costs.filesystem = random.of({0.1e9, 5e9, 1000e9});
  costs.filesystem_rank = random.of({0.05e9, 1e9, 20e9});
  costs.message_s = random.of({0.0, 1e-7, 10e-6, 1e-3});
  costs.memory = random.of({1e9, 10e9, 1000e9});
  if (fabric) costs.fabric_rank = random.of({1e6, 0.1e9, 5e9, 400e9});
  return costs;
}

constexpr std::uint64_t kRanks[] = {1, 2, 8, 60, 512, 4096};

class CostModel : public ::testing::TestWithParam<const char*> {};

TEST_P(CostModel, AutoIsNeverWorse) {
  const TensorIndex index = table(GetParam());
  Random random(5);
  int compared = 0;
  int better = 0;  // than both of the others
  for (std::uint64_t ranks : kRanks) {
    for (const Meshed& meshed : meshes(ranks)) {
      const Layout layout = Layout::preset(meshed.preset, Mesh(meshed.axes));
      for (int i = 0; i < 6; ++i) {
        PlanParams params;
        params.costs = random_costs(random, random.one_in(2));
        const std::vector<StrategyEstimate> all = estimate_strategies(index, layout, params);
        ASSERT_GE(all.size(), 3u);
        ASSERT_EQ(all[0].strategy + all[1].strategy + all[2].strategy, "slablinearauto");
        const double least = all[2].estimate.total();
        for (std::size_t other : {0, 1}) {
          ASSERT_LE(least, all[other].estimate.total() * (1 + 1e-12))
              << all[other].strategy << " " << meshed.preset << " " << layout.mesh().text() << " "
              << params.costs.text();
        }
        ++compared;
        better += least < 0.99 * std::min(all[0].estimate.total(), all[1].estimate.total());
      }
    }
  }
  RecordProperty("compared", compared);
  RecordProperty("better", better);
  EXPECT_GT(better, compared / 20);
}

// Each tensor comes the cheapest way that it may.
TEST_P(CostModel, AutoTakesTheCheapestWay) {
  const TensorIndex index = table(GetParam());
  Random random(6);
  std::map<Way, int> taken;
  for (std::uint64_t ranks : kRanks) {
    for (const Meshed& meshed : meshes(ranks)) {
      const Layout layout = Layout::preset(meshed.preset, Mesh(meshed.axes));
      PlanParams params;
      params.strategy = "auto";
      params.costs = random_costs(random, random.one_in(2));
      const std::uint64_t round = 64 << 20;
      const std::vector<PlanTensor> tensors = plan_tensors(index, layout, params);
      const WayChoice choice(index, params, round, ranks);
      for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        const Way way = choice.choose("auto", t, tensors[t]);
        ++taken[way];
        ASSERT_TRUE(choice.may(t, tensors[t], way)) << index.tensors[t].name;
        for (Way other : {Way::direct, Way::relay, Way::exchange, Way::spread, Way::reread}) {
          if (!choice.may(t, tensors[t], other)) continue;
          ASSERT_LE(choice.estimate(tensors[t], way).total(), choice.estimate(tensors[t], other).total())
              << index.tensors[t].name << " " << way_name(way) << " " << way_name(other) << " "
              << meshed.preset << " " << layout.mesh().text() << " " << params.costs.text();
        }
      }
    }
  }
  for (Way way : {Way::direct, Way::relay, Way::exchange, Way::spread, Way::reread})
    EXPECT_GE(taken[way], 20) << way_name(way);
}

// Whatever else is slow: each byte is read once, unless the user says that it is the fabric.
TEST_P(CostModel, OnlyAFabricThatIsGivenAsSlowMakesItReadAgain) {
  const TensorIndex index = table(GetParam());
  Random random(7);
  for (std::uint64_t ranks : {2, 8, 60}) {
    for (const Meshed& meshed : meshes(ranks)) {
      const Layout layout = Layout::preset(meshed.preset, Mesh(meshed.axes));
      PlanParams params;
      params.strategy = "auto";
      for (bool slow : {false, true}) {
        params.costs = random_costs(random, false);
        if (slow) {
          params.costs = Costs{};
          params.costs.fabric_rank = 1e2;
        }
        const std::vector<PlanTensor> tensors = plan_tensors(index, layout, params);
        const WayChoice choice(index, params, 64 << 20, ranks);
        for (std::uint32_t t = 0; t < tensors.size(); ++t) {
          const bool again = choice.choose("auto", t, tensors[t]) == Way::reread;
          // By these costs a tensor that several hold is read by each of them.
          ASSERT_EQ(again, slow && tensors[t].replicas > 1) << index.tensors[t].name << " " << meshed.preset;
          for (const char* strategy : {"slab", "linear"})
            ASSERT_NE(choice.choose(strategy, t, tensors[t]), Way::reread);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, CostModel, ::testing::ValuesIn(kTables), [](const auto& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

// Eight experts on 64 ranks: eight ranks would read everything, each 8/64 of what all could. A read cannot be estimated to end
// before the rank that reads most can have its bytes.
TEST(WayChoice, KnowsThatAShortDimensionHasFewReaders) {
  const TensorIndex index = parse_table("experts.w1\tbf16\t8,4096,14336\nexperts.w2\tbf16\t8,4096,14336\n", "experts");
  for (std::uint64_t ranks : {8u, 11u, 64u, 1000u}) {
    const Layout layout = Layout::preset("fsdp2", Mesh({{"dp_shard", ranks}}));
    PlanParams params;
    params.costs = Costs::parse("fs=100GB/s,fs_per_rank=1GB/s,fabric=50GB/s");
    for (const StrategyEstimate& one : estimate_strategies(index, layout, params)) {
      if (one.baseline) continue;
      params.strategy = one.strategy;
      const PlanSummary plan = simulate(index, layout, params);
      EXPECT_GE(one.estimate.read_s, 0.999 * static_cast<double>(plan.read_bytes.max) / 1e9) << one.strategy << " on " << ranks;
      if (one.strategy == "auto") {
        EXPECT_LT(plan.share_max_over_mean(), 1.05) << ranks;
      }
    }
  }
}

TEST(Costs, AreParsed) {
  const Costs costs =
      Costs::parse("request=0.5ms,fs=5GB/s,fs_per_rank=1.5GiB/s,fabric=50GB/s,message=10us,copy=10GB/s");
  EXPECT_DOUBLE_EQ(costs.request_s.value(), 0.5e-3);
  EXPECT_DOUBLE_EQ(costs.filesystem.value(), 5e9);
  EXPECT_DOUBLE_EQ(costs.filesystem_rank.value(), 1.5 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(costs.fabric_rank.value(), 50e9);
  EXPECT_DOUBLE_EQ(costs.message_s.value(), 10e-6);
  EXPECT_DOUBLE_EQ(costs.memory.value(), 10e9);
  EXPECT_DOUBLE_EQ(Costs::parse("request=2s").request(), 2);
  EXPECT_DOUBLE_EQ(Costs::parse("request=2").request(), 2);
  EXPECT_DOUBLE_EQ(Costs::parse("message=1e-3ms").message(), 1e-6);
  EXPECT_DOUBLE_EQ(Costs::parse("message=0us").message(), 0);
  EXPECT_DOUBLE_EQ(Costs::parse("fs=4096/s").fs(), 4096);
  // What is not given is not known, but has a value to choose by.
  const Costs none = Costs::parse("");
  EXPECT_FALSE(none.request_s || none.filesystem || none.filesystem_rank || none.fabric_rank ||
               none.message_s || none.memory);
  EXPECT_GT(none.fabric(), none.fs_per_rank());
  EXPECT_FALSE(Costs::parse("fs=1GB/s").fabric_rank);
}

TEST(Costs, AreWrittenAsTheyAreRead) {
  for (const char* text :
       {"request=20us,fs=5GB/s", "fabric=1MB/s,message=2ms,copy=123GB/s", "fs_per_rank=1B/s"}) {
    const Costs costs = Costs::parse(text);
    const Costs again = Costs::parse(costs.text());
    EXPECT_NEAR(again.request(), costs.request(), 1e-3 * costs.request()) << costs.text();
    EXPECT_NEAR(again.message(), costs.message(), 1e-3 * costs.message()) << costs.text();
    EXPECT_NEAR(again.fs(), costs.fs(), 1e-3 * costs.fs()) << costs.text();
    EXPECT_NEAR(again.fs_per_rank(), costs.fs_per_rank(), 1e-3 * costs.fs_per_rank()) << costs.text();
    EXPECT_NEAR(again.fabric(), costs.fabric(), 1e-3 * costs.fabric()) << costs.text();
    EXPECT_NEAR(again.copy(), costs.copy(), 1e-3 * costs.copy()) << costs.text();
  }
}

TEST(Costs, ThatAreNoneAreNamed) {
  for (const char* part :
       {"request",     "request=",    "request=ms",     "request=-1ms",  "request=1m", "request=1ms ",
        "request=nan", "request=inf", "request=1e300s", "request=5GB/s", "fs=",        "fs=5",
        "fs=5GB",      "fs=0GB/s",    "fs=/s",          "fs=-1GB/s",     "fs=1e3ms",   "latency=1ms",
        "=1ms",        "FS=1GB/s",    "fabric==1GB/s"}) {
    for (const std::string& text :
         {std::string(part), fmt::format("copy=1GB/s,{}", part), fmt::format("{},fs=1GB/s", part)}) {
      const Error error = thrown_error([&] { Costs::parse(text); });
      EXPECT_EQ(error.status(), Status::usage) << text;
      EXPECT_THAT(error.message(), HasSubstr("--cost")) << text;
    }
  }
  for (const char* text :
       {",", ",fs=1GB/s", "fs=1GB/s,,copy=1GB/s", "fs=1GB/s,fs=2", "fs=1GB/s,", "request=1ms,request=x"}) {
    EXPECT_THAT(thrown_error([&] { Costs::parse(text); }).message(), HasSubstr("--cost")) << text;
  }
}

}  // namespace
}  // namespace slabload
