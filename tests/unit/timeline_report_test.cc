// The timeline file: Trace Event Format, read back by another JSON parser's eyes.
#include "report/timeline_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "thrown_error.h"

namespace slabload {
namespace {

using ::testing::HasSubstr;
using testing::thrown_error;

TensorIndex index_of(const std::vector<std::string>& names) {
  TensorIndex index;
  for (const std::string& name : names) {
    TensorMeta tensor;
    tensor.name = name;
    index.tensors.push_back(tensor);
  }
  return index;
}

// Two hosts whose clocks differ by an hour. Counted from the barrier, rank 0 has events at -0.5 and 0.25 s,
// rank 1 one at -0.75 s, which is the first of all.
std::vector<RankTimeline> example_ranks() {
  std::vector<RankTimeline> ranks(2);
  ranks[0].host = "node-a";
  ranks[0].origin_s = 1000;
  ranks[0].timeline.add(Phase::plan, kNoTensor, 999.5, 999.625, 0);
  ranks[0].timeline.add(Phase::read, 1, 1000.25, 1000.5, 4096);
  ranks[1].host = "node\"b\xff";
  ranks[1].origin_s = 4600;
  ranks[1].timeline.add(Phase::open, kNoTensor, 4599.25, 4599.25, 0);
  return ranks;
}

// The thread names of a rank, and its complete events.
struct Rank {
  std::string name;
  std::map<int, std::string> threads;
  std::vector<nlohmann::json> events;
};

std::map<int, Rank> parsed(const std::string& text) {
  std::map<int, Rank> ranks;
  nlohmann::json json = nlohmann::json::parse(text);
  for (const nlohmann::json& event : json.at("traceEvents")) {
    Rank& rank = ranks[event.at("pid")];
    if (event.at("ph") == "X") {
      rank.events.push_back(event);
      EXPECT_EQ(event.size(), 8u);
      EXPECT_TRUE(rank.threads.contains(event.at("tid"))) << "an event on a row without a name";
      continue;
    }
    EXPECT_EQ(event.at("ph"), "M");
    std::string what = event.at("name");
    const nlohmann::json& value = event.at("args").begin().value();
    if (what == "process_name") {
      rank.name = value;
    } else if (what == "thread_name") {
      rank.threads[event.at("tid")] = value;
    } else {
      EXPECT_EQ(value, event.at(what == "process_sort_index" ? "pid" : "tid")) << what;
    }
  }
  return ranks;
}

std::set<std::string> rows(const Rank& rank) {
  std::set<std::string> names;
  for (const auto& [id, name] : rank.threads) names.insert(name);
  return names;
}

TEST(TimelineReport, HoldsEveryRanksRowsAndEvents) {
  std::map<int, Rank> ranks = parsed(timeline_json(example_ranks(), index_of({"a", "model.b"})));
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].name, "rank 0 node-a");
  EXPECT_EQ(ranks[1].name, "rank 1 node\"b\\xff");
  EXPECT_EQ(rows(ranks[0]), (std::set<std::string>{"open, plan", "read"}));
  EXPECT_EQ(rows(ranks[1]), (std::set<std::string>{"open, plan"}));

  ASSERT_EQ(ranks[0].events.size(), 2u);
  const nlohmann::json& plan = ranks[0].events[0];
  EXPECT_EQ(plan["name"], "plan");
  EXPECT_EQ(plan["cat"], "plan");
  EXPECT_EQ(plan["ts"], 250000);
  EXPECT_EQ(plan["dur"], 125000);
  EXPECT_EQ(plan["args"], (nlohmann::json{{"bytes", 0}}));
  const nlohmann::json& read = ranks[0].events[1];
  EXPECT_EQ(read["name"], "model.b");
  EXPECT_EQ(read["cat"], "read");
  EXPECT_EQ(read["ts"], 1000000);
  EXPECT_EQ(read["dur"], 250000);
  EXPECT_EQ(read["args"], (nlohmann::json{{"tensor", "model.b"}, {"bytes", 4096}}));
  EXPECT_NE(read["tid"], plan["tid"]);
  ASSERT_EQ(ranks[1].events.size(), 1u);
  EXPECT_EQ(ranks[1].events[0]["ts"], 0);
  EXPECT_EQ(ranks[1].events[0]["dur"], 0);
}

TEST(TimelineReport, TimesHaveThreeDecimals) {
  std::vector<RankTimeline> ranks(1);
  ranks[0].timeline.add(Phase::read, 0, 0, 1e-6, 1);
  ranks[0].timeline.add(Phase::read, 1, 1234567.000007, 1234567.000008, 1);
  std::string text = timeline_json(ranks, index_of({"a", "b"}));
  EXPECT_THAT(text, HasSubstr("\"ts\":0.000,\"dur\":1.000,"));
  EXPECT_THAT(text, HasSubstr("\"ts\":1234567000007.000,\"dur\":1.000,"));
}

TEST(TimelineReport, NothingToShowIsStillAFile) {
  EXPECT_EQ(nlohmann::json::parse(timeline_json({}, index_of({})))["traceEvents"], nlohmann::json::array());
  std::map<int, Rank> ranks = parsed(timeline_json(std::vector<RankTimeline>(3), index_of({})));
  EXPECT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[2].name, "rank 2 ");
  EXPECT_TRUE(ranks[2].events.empty());
}

TEST(TimelineReport, NamesMayHoldAnyByte) {
  std::vector<RankTimeline> ranks(1);
  for (std::uint32_t t = 0; t < 3; ++t) ranks[0].timeline.add(Phase::read, t, t, t + 1, 0);
  std::map<int, Rank> back = parsed(timeline_json(ranks, index_of({"a\"\\\n", "\xc3\x28", "ä"})));
  ASSERT_EQ(back[0].events.size(), 3u);
  EXPECT_EQ(back[0].events[0]["name"], "a\"\\\n");
  EXPECT_EQ(back[0].events[1]["name"], "\\xc3(");
  EXPECT_EQ(back[0].events[2]["args"]["tensor"], "ä");
}

TEST(TimelineReport, ATensorThatIsNotThereIsRefused) {
  std::vector<RankTimeline> ranks(1);
  ranks[0].timeline.add(Phase::read, 2, 0, 1, 0);
  Error error = thrown_error([&] { timeline_json(ranks, index_of({"a", "b"})); });
  EXPECT_EQ(error.status(), Status::internal);
}

// Fills [0,3] [1,2] [2,5] [3,4]: the second lies beside the first, the others find a free row again.
TEST(TimelineReport, OverlappingSpansGetRowsOfTheirOwn) {
  std::vector<RankTimeline> ranks(1);
  double spans[][2] = {{2, 5}, {0, 3}, {3, 4}, {1, 2}};
  for (std::uint32_t t = 0; t < 4; ++t) ranks[0].timeline.add(Phase::fill, t, spans[t][0], spans[t][1], 0);
  std::map<int, Rank> back = parsed(timeline_json(ranks, index_of({"2-5", "0-3", "3-4", "1-2"})));
  EXPECT_EQ(rows(back[0]), (std::set<std::string>{"fill", "fill 2"}));
  std::map<std::string, std::string> row_of;
  for (const nlohmann::json& event : back[0].events) row_of[event["name"]] = back[0].threads[event["tid"]];
  EXPECT_EQ(row_of, (std::map<std::string, std::string>{
                        {"0-3", "fill"}, {"1-2", "fill 2"}, {"2-5", "fill 2"}, {"3-4", "fill"}}));
}

TEST(TimelineReport, RandomTimelinesKeepEverySpanAndNoRowOverlaps) {
  std::mt19937 random(5);
  std::vector<std::string> names;
  for (int t = 0; t < 400; ++t) names.push_back("layer." + std::to_string(t));
  std::vector<RankTimeline> ranks(7);
  std::map<std::tuple<int, std::string, std::string>, std::tuple<double, double, std::uint64_t>> expected;
  double earliest = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].host = "h";
    ranks[r].origin_s = 1e5 * static_cast<double>(random() % 10);
    for (std::uint32_t t = 0; t < 400; ++t) {
      auto phase = static_cast<Phase>(random() % kPhaseCount);
      double begin = static_cast<double>(random() % 1000000) * 1e-6 - 0.25,
             length = static_cast<double>(random() % 9000) * 1e-6;
      std::uint64_t bytes = random();
      ranks[r].timeline.add(phase, t, ranks[r].origin_s + begin, ranks[r].origin_s + begin + length, bytes);
      expected[{static_cast<int>(r), std::string(phase_name(phase)), names[t]}] = {begin, length, bytes};
      earliest = std::min(earliest, begin);
    }
  }
  std::map<int, Rank> back = parsed(timeline_json(ranks, index_of(names)));
  std::size_t found = 0;
  for (auto& [number, rank] : back) {
    std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> times;
    for (const nlohmann::json& event : rank.events) {
      ++found;
      auto place = expected.find({number, event["cat"], event["name"]});
      ASSERT_NE(place, expected.end());
      auto [begin, length, bytes] = place->second;
      double ts = event["ts"], dur = event["dur"];
      EXPECT_NEAR(ts, (begin - earliest) * 1e6, 0.002);
      EXPECT_NEAR(dur, length * 1e6, 0.002);
      EXPECT_EQ(event["args"]["bytes"], bytes);
      EXPECT_GE(ts, 0);
      times[event["tid"]].push_back({std::llround(ts * 1000), std::llround((ts + dur) * 1000)});
    }
    for (auto& [thread, spans] : times) {
      std::sort(spans.begin(), spans.end());
      for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_GE(spans[i].first, spans[i - 1].second);
    }
  }
  EXPECT_EQ(found, expected.size());
}

TEST(TimelineReport, LargeFilesComeInPieces) {
  std::vector<RankTimeline> ranks(2);
  for (std::uint32_t i = 0; i < 5000; ++i) ranks[i % 2].timeline.add(Phase::read, i % 2, i, i + 0.5, 1);
  std::string whole;
  std::size_t pieces = 0, longest = 0;
  write_timeline(ranks, index_of({"a", "b"}), [&](std::string_view piece) {
    whole += piece;
    ++pieces;
    longest = std::max(longest, piece.size());
  });
  EXPECT_GT(pieces, 4u);
  EXPECT_LT(longest, 66000u);
  EXPECT_EQ(whole, timeline_json(ranks, index_of({"a", "b"})));
  EXPECT_EQ(parsed(whole)[1].events.size(), 2500u);
}

TEST(TimelineReport, BytesRebuildARanksTimeline) {
  RankTimeline rank = example_ranks()[0];
  std::string bytes = to_bytes(rank);
  RankTimeline back = rank_timeline_from_bytes(bytes);
  EXPECT_EQ(back.host, "node-a");
  EXPECT_EQ(back.origin_s, 1000);
  EXPECT_EQ(back.timeline.to_bytes(), rank.timeline.to_bytes());
  for (std::size_t size = 0; size + 64 < bytes.size(); ++size) {
    Error error = thrown_error([&] { rank_timeline_from_bytes(bytes.substr(0, size)); });
    EXPECT_EQ(error.status(), Status::internal);
  }
  bytes[15] = '\x7f';  // a host name of 2^62 bytes
  EXPECT_EQ(thrown_error([&] { rank_timeline_from_bytes(bytes); }).status(), Status::internal);
}

TEST(TimelineReport, AJobOfAnySizeSendsWhatAFileCanHold) {
  EXPECT_EQ(spans_to_send(0), 65536u);
  EXPECT_EQ(spans_to_send(1), 65536u);
  EXPECT_EQ(spans_to_send(16), 65536u);
  EXPECT_EQ(spans_to_send(1024), 1024u);
  EXPECT_EQ(spans_to_send(1000000), 64u);
}

}  // namespace
}  // namespace slabload
