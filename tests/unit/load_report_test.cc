// The load report: keys, numbers from an example worked out by hand, text.
#include "report/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace slabload {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Three ranks on two hosts; 600 bytes selected and read, 100, 200 and 300.
LoadReport example_load() {
  LoadReport r;
  r.version = "1.2.3";
  r.checkpoint = "model.h5";
  r.mesh = "dp_shard=3";
  r.layout = "fsdp2";
  r.strategy = "slab";
  r.strategy_why = "the default";
  r.device = "host";
  r.fabric = "mpi";
  r.io = "independent, ROMIO";
  r.hints = {"a=1", "b=2"};
  r.notes = {"3 tensors narrowed"};
  r.ranks = 3;
  r.hosts = 2;
  r.ranks_per_node = 2;
  r.tensors = 5;
  r.tensors_verified = 3;
  r.tensors_unverified = 1;
  r.wrong = {{"bad", 0x995dc9bbdf1939fa, 0x1}};
  r.selected_bytes = 600;
  r.rounds = 4;
  r.staging_budget = 64 << 20;
  r.slots = 4;
  r.slot_bytes = 16 << 20;
  r.bound_s = 2;
  r.per_rank.resize(3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    RankStats& s = r.per_rank[i];
    auto k = static_cast<double>(i + 1);
    s.open_s = 0.1 * k;
    s.plan_s = 0.4 - 0.1 * k;  // open + plan is 0.4 on every rank, though their maxima add up to 0.6
    s.read_s = k;
    s.copy_s = 0.5;
    s.fill_s = 0.25 * k;
    s.verify_s = 0.125;
    s.total_s = 2 * k;
    s.read_bytes = 100 * (i + 1);
    s.read_requests = i + 1;
    s.copy_bytes = 10;
    s.fill_bytes = 50 * i;
    s.verify_bytes = 100 * (i + 1);
    s.shard_bytes = 200;
    s.staging_peak = 1000 * (3 - i);
    s.rss_peak = i == 1 ? 9000000 : 5000000 + i;
    s.device_peak = 7 * i;
    s.moving_s = i == 0 ? 0 : 2 * k;  // 0, 4, 6
    s.hidden_s = i == 0 ? 0 : 3;      // 3 of 4 on rank 1, 3 of 6 on rank 2: 6 of 10 together
    s.wait_s = 0.5 * k;
    s.fabric_bytes = 2000000 + i;
    s.ring_slots = i;
    s.ring_slot_bytes = 4000000;
    s.datasets_opened = 2;
  }
  return r;
}

TEST(LoadReport, JsonHasTheDocumentedKeysAndNoOthers) {
  nlohmann::json json = nlohmann::json::parse(to_json(example_load()));
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.insert(key);
  std::set<std::string> documented{
      "schema_version", "version", "checkpoint", "ranks", "hosts", "ranks_per_node", "mesh", "layout",
      "strategy", "strategy_why", "device", "fabric", "io", "hints", "tensors", "tensors_verified",
      "tensors_unverified", "wrong", "selected_bytes", "read_bytes", "read_amplification", "read_requests",
      "read_share_max_over_mean", "fill_bytes", "rounds", "staging_budget_bytes", "staging_peak_bytes",
      "shard_bytes_max", "rss_peak_bytes_max", "rss_peak_rank", "rss_peak_bytes", "device_peak_bytes_max",
      "total_s", "bound_s", "over_bound", "phases",
      // further ones
      "fabric_bytes_max", "pinned_bytes_max", "staging_slots", "staging_slot_bytes", "hidden_share",
      "hidden_share_min", "hidden_share_min_rank", "moving_s_max", "hidden_s_max", "wait_s_max", "startup_s",
      "memory_s", "datasets_opened", "notes", "wrong_tensors"};
  EXPECT_EQ(keys, documented);
}

TEST(LoadReport, JsonHoldsTheNumbers) {
  nlohmann::json json = nlohmann::json::parse(to_json(example_load()));
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["checkpoint"], "model.h5");
  EXPECT_EQ(json["ranks"], 3);
  EXPECT_EQ(json["hosts"], 2);
  EXPECT_EQ(json["ranks_per_node"], 2);
  EXPECT_EQ(json["hints"], (nlohmann::json{"a=1", "b=2"}));
  EXPECT_EQ(json["tensors_verified"], 3);
  EXPECT_EQ(json["tensors_unverified"], 1);
  EXPECT_EQ(json["wrong"], 1);
  EXPECT_EQ(json["selected_bytes"], 600);
  EXPECT_EQ(json["read_bytes"], 600);
  EXPECT_DOUBLE_EQ(json["read_amplification"], 1.0);
  EXPECT_EQ(json["read_requests"], 6);
  EXPECT_DOUBLE_EQ(json["read_share_max_over_mean"], 1.5);  // 300 over 200
  EXPECT_EQ(json["fill_bytes"], 150);
  EXPECT_EQ(json["rounds"], 4);
  EXPECT_EQ(json["staging_budget_bytes"], 67108864);
  EXPECT_EQ(json["staging_peak_bytes"], 3000);
  EXPECT_EQ(json["shard_bytes_max"], 200);
  EXPECT_EQ(json["rss_peak_bytes_max"], 9000000);
  EXPECT_EQ(json["rss_peak_rank"], 1);
  EXPECT_EQ(json["rss_peak_bytes"], (nlohmann::json{5000000, 9000000, 5000002}));
  EXPECT_EQ(json["device_peak_bytes_max"], 14);
  EXPECT_EQ(json["fabric_bytes_max"], 2000002);
  EXPECT_EQ(json["pinned_bytes_max"], 8000000);
  EXPECT_EQ(json["staging_slots"], 4);
  EXPECT_EQ(json["staging_slot_bytes"], 16777216);
  EXPECT_DOUBLE_EQ(json["hidden_share"], 0.6);
  EXPECT_DOUBLE_EQ(json["hidden_share_min"], 0.5);
  EXPECT_EQ(json["hidden_share_min_rank"], 2);
  EXPECT_DOUBLE_EQ(json["moving_s_max"], 6);
  EXPECT_DOUBLE_EQ(json["hidden_s_max"], 3);
  EXPECT_DOUBLE_EQ(json["wait_s_max"], 1.5);
  EXPECT_DOUBLE_EQ(json["total_s"], 6);
  EXPECT_DOUBLE_EQ(json["bound_s"], 2);
  EXPECT_DOUBLE_EQ(json["over_bound"], 3);
  EXPECT_DOUBLE_EQ(json["startup_s"], 0.4);
  EXPECT_EQ(json["datasets_opened"], 6);
  EXPECT_EQ(json["notes"], (nlohmann::json{"3 tensors narrowed"}));
  EXPECT_EQ(json["wrong_tensors"],
            (nlohmann::json{{{"name", "bad"}, {"expected", "995dc9bbdf1939fa"}, {"found", "0000000000000001"}}}));
}

TEST(LoadReport, JsonListsThePhases) {
  nlohmann::json phases = nlohmann::json::parse(to_json(example_load()))["phases"];
  std::vector<std::string> names;
  for (const nlohmann::json& phase : phases) {
    names.push_back(phase["name"]);
    EXPECT_EQ(phase.size(), 7u);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"open", "plan", "read", "copy", "fill", "verify", "total"}));
  nlohmann::json read = phases[2];
  EXPECT_DOUBLE_EQ(read["min_s"], 1);
  EXPECT_DOUBLE_EQ(read["mean_s"], 2);
  EXPECT_DOUBLE_EQ(read["max_s"], 3);
  EXPECT_EQ(read["bytes"], 600);
  EXPECT_EQ(read["bytes_min"], 100);
  EXPECT_EQ(read["bytes_max"], 300);
  nlohmann::json fill = phases[4];
  EXPECT_DOUBLE_EQ(fill["mean_s"], 0.5);
  EXPECT_EQ(fill["bytes"], 150);
  EXPECT_EQ(fill["bytes_min"], 0);
  EXPECT_EQ(fill["bytes_max"], 100);
  nlohmann::json total = phases[6];
  EXPECT_DOUBLE_EQ(total["max_s"], 6);
  EXPECT_EQ(total["bytes"], 600);  // the shards, 200 on each rank
  EXPECT_EQ(phases[0]["bytes"], 0);
}

TEST(LoadReport, ReadingTwiceIsAmplification) {
  LoadReport r = example_load();
  r.selected_bytes = 200;
  EXPECT_DOUBLE_EQ(r.read_amplification(), 3);
  r.per_rank.assign(4, RankStats{});
  r.per_rank[0].read_bytes = 800;
  EXPECT_DOUBLE_EQ(r.read_amplification(), 4);
  EXPECT_DOUBLE_EQ(r.read_share_max_over_mean(), 4);
}

TEST(LoadReport, NothingSelectedDividesByNothing) {
  LoadReport r = example_load();
  r.selected_bytes = 0;
  r.bound_s = 0;
  r.per_rank.assign(2, RankStats{});
  EXPECT_DOUBLE_EQ(r.read_amplification(), 1);
  EXPECT_DOUBLE_EQ(r.read_share_max_over_mean(), 1);
  nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_DOUBLE_EQ(json["read_amplification"], 1);
  EXPECT_TRUE(json["bound_s"].is_null());
  EXPECT_TRUE(json["over_bound"].is_null());
  EXPECT_THAT(to_text(r), Not(HasSubstr("nan")));
}

TEST(LoadReport, WhereNothingMovesNothingIsHidden) {
  LoadReport r = example_load();
  r.per_rank.resize(1);  // the rank that neither copied nor filled
  EXPECT_FALSE(r.hidden_share());
  EXPECT_FALSE(r.hidden_share_min());
  nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_TRUE(json["hidden_share"].is_null());
  EXPECT_TRUE(json["hidden_share_min"].is_null());
  EXPECT_TRUE(json["hidden_share_min_rank"].is_null());
  EXPECT_THAT(to_text(r), HasSubstr("# copies and fills hidden      -\n"));
}

TEST(LoadReport, NothingHiddenIsAShareOfZero) {
  LoadReport r = example_load();
  for (RankStats& s : r.per_rank) s.hidden_s = 0;
  EXPECT_EQ(r.hidden_share(), 0);
  EXPECT_EQ(r.hidden_share_min()->rank, 1u);  // the first of those that moved something
  EXPECT_THAT(to_text(r), HasSubstr("hidden      0.0% of their time behind reads"));
}

TEST(LoadReport, HostLoadsHaveNoDeviceLines) {
  LoadReport r = example_load();
  EXPECT_THAT(to_text(r), HasSubstr("device memory"));
  for (RankStats& s : r.per_rank) s.device_peak = s.fabric_bytes = s.ring_slots = s.ring_slot_bytes = 0;
  EXPECT_THAT(to_text(r), Not(HasSubstr("device memory")));
  EXPECT_THAT(to_text(r), Not(HasSubstr("pinned")));
  EXPECT_EQ(nlohmann::json::parse(to_json(r))["pinned_bytes_max"], 0);
  r.slots = 0;
  EXPECT_THAT(to_text(r), Not(HasSubstr("# slots")));
}

TEST(LoadReport, JsonHasTheSameKeysOnOneRank) {
  LoadReport one = example_load();
  one.per_rank.erase(one.per_rank.begin(), one.per_rank.begin() + 2);
  one.wrong.clear();
  nlohmann::json a = nlohmann::json::parse(to_json(example_load())), b = nlohmann::json::parse(to_json(one));
  for (const auto& [key, value] : a.items()) EXPECT_EQ(b[key].type_name(), value.type_name()) << key;
}

TEST(LoadReport, JsonIsValidWhateverBytesNamesHold) {
  LoadReport r = example_load();
  r.checkpoint = "a\xff\x1b\"\\.h5";
  r.notes = {"\xc3\x28"};
  r.wrong[0].name = std::string("w\0\xfe", 3);
  nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_THAT(json["checkpoint"].get<std::string>(), HasSubstr("\\xff"));
  EXPECT_THAT(json["wrong_tensors"][0]["name"].get<std::string>(), HasSubstr("\\xfe"));
}

TEST(LoadReport, TextHasCommentsTableFiguresAndWrongLast) {
  std::string text = to_text(example_load());
  EXPECT_TRUE(text.ends_with("\n#wrong 1\n")) << text;
  std::vector<std::string> rows;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string line = text.substr(begin, end - begin);
    ASSERT_FALSE(line.empty());
    if (line[0] != '#') rows.push_back(line);
  }
  ASSERT_EQ(rows.size(), 7u);  // the phases are the only lines that are no comments
  EXPECT_THAT(rows[2], HasSubstr("read "));
  EXPECT_THAT(rows[2], HasSubstr("3.0000"));
  EXPECT_THAT(rows[2], HasSubstr(" 600 "));
  EXPECT_THAT(rows[6], HasSubstr("total"));
  for (const char* part :
       {"# slabload    1.2.3",
        "model.h5",
        "3 on 2 hosts, 2 per node",
        "dp_shard=3",
        "slab: the default",
        "a=1, b=2",
        "3 tensors narrowed",
        "(GB/s)",
        "read amplification           1.000",
        "largest read share / mean    1.500",
        "9.000 MB on rank 1",
        "64 MiB",
        "3.00 (bound 2.0000 s)",
        "copies and fills hidden      60.0% of their time behind reads, all ranks together; least 50.0% on "
        "rank 2",
        "waiting for slots and fills  1.5000 s (slowest rank)",
        "slots of the staging         4 of 16 MiB",
        "device memory per rank  14 B of shards and scratch, 2.000 MB of the fabric besides",
        "pinned memory per rank       8.000 MB",
        "3 of 5 (1 unverified)",
        "# wrong bad: crc64 0000000000000001, expected 995dc9bbdf1939fa"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("baseline")));
}

TEST(LoadReport, TextMarksBaselinesAndCutsLongListsOfWrongTensors) {
  LoadReport r = example_load();
  r.strategy = "rank0-full";
  r.baseline = true;
  r.wrong.assign(50, {"x\ny", 1, 2});
  std::string text = to_text(r);
  EXPECT_THAT(text, HasSubstr("rank0-full (baseline)"));
  EXPECT_THAT(text, HasSubstr("x\\x0ay"));
  EXPECT_THAT(text, HasSubstr("# wrong: 30 more\n#wrong 50\n"));
}

}  // namespace
}  // namespace slabload
