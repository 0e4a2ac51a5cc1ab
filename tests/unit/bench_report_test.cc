// The bench report: statistics from an example worked out by hand.
#include "report/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/planner.h"

namespace slabload {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BenchRun run(const char* strategy, std::uint64_t repeat, double total_s, double startup_s,
             std::uint64_t rss) {
  BenchRun r;
  r.strategy = strategy;
  r.repeat = repeat;
  r.total_s = total_s;
  r.startup_s = startup_s;
  r.read_s = 0.5;
  r.fill_s = 0.25;
  r.verify_s = 0.125;
  r.bytes = 6000000000;
  r.read_bytes = 6000000000;
  r.fill_bytes = 1000000000;
  r.rss_peak_max = rss;
  r.rss_peak_rank0 = rss / 2;
  r.ceiling_gbps = 5;
  return r;
}

// slab: 6 GB in 2, 3 and 1.5 s beyond the start-up: 3, 2 and 4 GB/s. rank0-full: 6 s, 1 GB/s, twice.
BenchReport example_bench() {
  BenchReport b;
  b.version = "1.2.3";
  b.checkpoint = "model.h5";
  b.mesh = "dp_shard=4";
  b.layout = "fsdp2";
  b.device = "host";
  b.fabric = "mpi";
  b.io = "independent";
  b.cache = "warm";
  b.ranks = 4;
  b.hosts = 1;
  b.warmup = 1;
  b.runs = {run("slab", 0, 2.5, 0.5, 100), run("rank0-full", 0, 7, 1, 900), run("slab", 1, 3.5, 0.5, 300),
            run("rank0-full", 1, 7, 1, 800), run("slab", 2, 2, 0.5, 200)};
  return b;
}

TEST(BenchReport, SpreadIsMaxMinMeanAndSampleDeviation) {
  Spread s = spread_of({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(s.max, 9);
  EXPECT_DOUBLE_EQ(s.min, 2);
  EXPECT_DOUBLE_EQ(s.mean, 5);
  EXPECT_NEAR(s.stddev, 2.138089935299395, 1e-12);  // sqrt(32 / 7)
  s = spread_of({3});
  EXPECT_DOUBLE_EQ(s.mean, 3);
  EXPECT_DOUBLE_EQ(s.stddev, 0);
  EXPECT_DOUBLE_EQ(spread_of({}).mean, 0);
}

TEST(BenchReport, SummarizesEachStrategy) {
  auto summaries = summarize(example_bench());
  ASSERT_EQ(summaries.size(), 2u);
  const BenchSummary& slab = summaries[0];
  EXPECT_EQ(slab.strategy, "slab");
  EXPECT_FALSE(slab.baseline);
  EXPECT_EQ(slab.runs, 3u);
  EXPECT_DOUBLE_EQ(slab.gbps.max, 4);
  EXPECT_DOUBLE_EQ(slab.gbps.min, 2);
  EXPECT_DOUBLE_EQ(slab.gbps.mean, 3);
  EXPECT_DOUBLE_EQ(slab.gbps.stddev, 1);
  EXPECT_NEAR(slab.total_s.mean, 8.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(slab.total_s.max, 3.5);
  EXPECT_DOUBLE_EQ(slab.startup_s.mean, 0.5);
  ASSERT_TRUE(slab.ceiling_share.has_value());
  EXPECT_DOUBLE_EQ(*slab.ceiling_share, 0.6);
  EXPECT_EQ(slab.rss_peak_max, 300u);
  EXPECT_EQ(slab.rss_peak_rank0, 150u);
  EXPECT_FALSE(slab.resident_share.has_value());
  EXPECT_TRUE(summaries[1].baseline);
  EXPECT_DOUBLE_EQ(summaries[1].gbps.mean, 1);
  EXPECT_DOUBLE_EQ(summaries[1].gbps.stddev, 0);
}

TEST(BenchReport, KnowsTheBaselines) {
  for (const char* name : {"rank0-broadcast", "rank0-full", "every-rank"}) EXPECT_TRUE(is_baseline(name));
  for (const char* name : {"slab", "auto", ""}) EXPECT_FALSE(is_baseline(name));
}

TEST(BenchReport, TextEndsWithTheBestAndItsRatios) {
  std::string text = to_text(example_bench());
  EXPECT_TRUE(text.ends_with("\n# best: slab at 3.000 GB/s; 3.00 x rank0-full (baseline)\n")) << text;
  EXPECT_THAT(text, HasSubstr("  rank0-full (baseline) "));
  EXPECT_THAT(text, HasSubstr("# cache       warm"));
  EXPECT_THAT(text, HasSubstr("0.600"));  // share of the ceiling
}

TEST(BenchReport, ABaselineMayWin) {
  BenchReport b = example_bench();
  for (BenchRun& r : b.runs) r.strategy = r.strategy == "slab" ? "every-rank" : "slab";
  EXPECT_TRUE(to_text(b).ends_with("# best: every-rank (baseline) at 3.000 GB/s; 3.00 x slab\n"));
}

TEST(BenchReport, NothingMeasuredIsNoNumber) {
  BenchReport b = example_bench();
  b.runs.clear();
  EXPECT_TRUE(to_text(b).ends_with("# best: nothing was measured\n"));
  EXPECT_TRUE(nlohmann::json::parse(to_json(b))["strategies"].empty());
  BenchRun instant = run("slab", 0, 0.5, 0.5, 1);
  instant.ceiling_gbps = 0;
  b.runs = {instant, run("every-rank", 0, 7, 1, 1)};
  EXPECT_DOUBLE_EQ(instant.gbps(), 0);
  std::string text = to_text(b);
  EXPECT_THAT(text, HasSubstr("no ratio to slab"));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_TRUE(nlohmann::json::parse(to_json(b))["strategies"][0]["ceiling_share"].is_null());
}

TEST(BenchReport, JsonHoldsRunsAndSummaries) {
  BenchReport b = example_bench();
  b.cache = "cold";
  b.checkpoint = "m\xff.h5";
  b.runs[0].resident_share = 0.25;
  b.runs[2].resident_share = 0.5;
  nlohmann::json json = nlohmann::json::parse(to_json(b));
  EXPECT_EQ(json["cache"], "cold");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["runs"].size(), 5u);
  EXPECT_EQ(json["runs"][1]["strategy"], "rank0-full");
  EXPECT_DOUBLE_EQ(json["runs"][0]["gbps"], 3);
  EXPECT_DOUBLE_EQ(json["runs"][0]["startup_s"], 0.5);
  EXPECT_DOUBLE_EQ(json["runs"][0]["resident_share"], 0.25);
  EXPECT_TRUE(json["runs"][1]["resident_share"].is_null());
  EXPECT_EQ(json["runs"][0]["rss_peak_max_bytes"], 100);
  EXPECT_EQ(json["strategies"][0]["strategy"], "slab");
  EXPECT_DOUBLE_EQ(json["strategies"][0]["gbps"]["mean"], 3);
  EXPECT_DOUBLE_EQ(json["strategies"][0]["ceiling_share"], 0.6);
  EXPECT_DOUBLE_EQ(json["strategies"][0]["resident_share"], 0.5);
  EXPECT_EQ(json["strategies"][1]["baseline"], true);
  EXPECT_EQ(json["best"], "slab");
  EXPECT_DOUBLE_EQ(json["best_over"]["rank0-full"], 3);
}

TEST(BenchReport, CsvHasALinePerRun) {
  std::string csv = to_csv(example_bench());
  std::size_t lines = 0, begin = 0;
  for (std::size_t end; (end = csv.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string line = csv.substr(begin, end - begin);
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 15) << line;
    if (lines == 0) {
      EXPECT_TRUE(line.starts_with("strategy,baseline,repeat,gbps,total_s,startup_s,"));
    }
    if (lines == 2) {
      EXPECT_TRUE(line.starts_with("rank0-full,1,0,1.000000,7.000000,1.000000,"));
    }
    ++lines;
  }
  EXPECT_EQ(lines, 6u);
}

}  // namespace
}  // namespace slabload
