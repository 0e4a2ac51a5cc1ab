// Plans of random checkpoints, layouts and budgets, run by an interpreter of the tests' own and compared
// element by element with what torch.chunk gives.
#include "plan/planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>

#include "fakes/plan_runner.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"
#include "plan/validate.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::named_budget;
using slabload::testing::pattern_bits;
using slabload::testing::Random;
using slabload::testing::random_case;
using slabload::testing::RandomCase;
using slabload::testing::preset_case;
using slabload::testing::rich_case;
using slabload::testing::Run;
using slabload::testing::run_plans;
using slabload::testing::thrown_error;
using slabload::testing::ways_of;
using ::testing::HasSubstr;

std::vector<LoadPlan> plans_of(const TensorIndex& index, const Layout& layout, const PlanParams& params) {
  auto planner = Planner::make(index, layout, params);
  std::vector<LoadPlan> plans;
  for (std::uint64_t rank = 0; rank < layout.mesh().ranks(); ++rank) plans.push_back(planner->plan(rank));
  return plans;
}

void validate(const TensorIndex& index, const Layout& layout, const PlanParams& params,
              const std::vector<LoadPlan>& plans) {
  Validator validator(index, layout, params);
  for (const LoadPlan& plan : plans) validator.add(plan);
  validator.finish();
}

DType expected_dtype(const TensorMeta& tensor, const PlanParams& params) {
  return params.cast && slabload::testing::is_floating(tensor.dtype) ? *params.cast : tensor.dtype;
}

// The bytes of a rank's shard of a tensor: the pattern of the elements that the rank holds.
std::string expected_shard(const RandomCase& c, std::size_t t, std::uint64_t rank) {
  std::string out;
  std::uint64_t size = dtype_size(expected_dtype(c.index.tensors[t], c.params));
  for (std::uint64_t i : c.held(t, rank)) slabload::testing::append_bits(out, pattern_bits(t, i), size);
  return out;
}

// What the help says of the slots: on a GPU 4 of 1/16 of the budget, whole pages up to 16 MiB, and one more
// to convert in; on the host one of 1/8, from 64 KiB to 8 MiB, if something is converted.
std::uint64_t beside_the_rounds(const PlanParams& params, bool converts) {
  if (!params.pinned) return converts ? std::clamp<std::uint64_t>(params.staging / 8, 65536, 8388608) : 0;
  std::uint64_t slot = std::clamp<std::uint64_t>(params.staging / 16 / 4096 * 4096, 4096, 16777216);
  if (params.slot_bytes != 0) slot = params.slot_bytes;
  return (params.slots == 0 ? 4 : params.slots) * slot + (converts ? slot : 0);
}

void expect_right(const RandomCase& c, const std::vector<LoadPlan>& plans) {
  Run run = run_plans(c.index, plans);
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    for (std::size_t t = 0; t < c.index.tensors.size(); ++t) {
      ASSERT_EQ(plans[rank].dtypes[t], expected_dtype(c.index.tensors[t], c.params));
      std::string want = expected_shard(c, t, rank);
      const ShardPlace& place = plans[rank].shards[t];
      ASSERT_EQ(place.bytes, want.size()) << c.index.tensors[t].name << " on rank " << rank;
      ASSERT_EQ(place.offset % 64, 0u);
      ASSERT_TRUE(run.shards[rank].compare(place.offset, place.bytes, want) == 0)
          << c.index.tensors[t].name << " on rank " << rank << " is not the tensor's part";
    }
  }
  for (std::size_t t = 0; t < c.index.tensors.size(); ++t) {
    // What was never written is not in the file: every owner makes it itself.
    if (c.index.tensors[t].storage == StorageKind::fill) continue;
    std::uint32_t times = c.params.strategy == "every-rank" ? static_cast<std::uint32_t>(plans.size()) : 1;
    if (!plans[0].rereads.empty() && plans[0].rereads[t]) {
      ASSERT_TRUE(c.params.costs.fabric_rank && c.params.strategy == "auto");
      for (std::size_t a = 0; a < c.mesh.size(); ++a) {
        if (c.dims[t][a] == -1) times *= static_cast<std::uint32_t>(c.mesh[a]);
      }
    }
    for (std::uint32_t n : run.reads[t]) ASSERT_EQ(n, times) << c.index.tensors[t].name;
  }
  if (is_baseline(c.params.strategy)) return;
  bool converts = false;
  for (const TensorMeta& t : c.index.tensors) converts |= expected_dtype(t, c.params) != t.dtype;
  for (const LoadPlan& plan : plans) {
    ASSERT_EQ(plan.keep_bytes, 0u);
    ASSERT_LE(plan.stage_bytes * plan.rounds_at_once + beside_the_rounds(c.params, converts), c.params.staging);
    std::uint64_t rounds = c.params.pinned || c.params.slots == 0 ? 2 : c.params.slots;
    ASSERT_LE(plan.rounds_at_once, rounds);
    if (!c.params.pinned && c.params.slot_bytes != 0) {
      ASSERT_LE(plan.stage_bytes, c.params.slot_bytes);
    }
  }
}

// Plans as asked for; where that does not fit, with the smallest budget that the refusal names, and proves
// that it is it.
std::vector<LoadPlan> plans_within_budget(RandomCase& c, int* refused) {
  Layout layout = c.layout();
  try {
    return plans_of(c.index, layout, c.params);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::usage) << error.message();
    std::uint64_t asked = c.params.staging;
    std::uint64_t least = named_budget(error);
    EXPECT_GT(least, asked);
    EXPECT_THAT(error.message(), HasSubstr(fmt::format("it lacks {} bytes", least - asked)));
    c.params.staging = least - 1;
    Error again = thrown_error([&] { plans_of(c.index, layout, c.params); });
    EXPECT_EQ(again.status(), Status::usage);
    EXPECT_EQ(named_budget(again), least);
    EXPECT_THAT(again.message(), HasSubstr("it lacks 1 bytes"));
    c.params.staging = least;
    ++*refused;
    return plans_of(c.index, layout, c.params);
  }
}

class PlannerSweep : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PlannerSweep, EveryElementOfEveryShardIsRight) {
  int refused = 0;
  for (std::uint64_t seed = GetParam() * 100; seed < GetParam() * 100 + 100; ++seed) {
    RandomCase c = random_case(seed);
    SCOPED_TRACE(c.text());
    try {
      std::vector<LoadPlan> plans = plans_within_budget(c, &refused);
      validate(c.index, c.layout(), c.params, plans);
      expect_right(c, plans);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 3);
}

INSTANTIATE_TEST_SUITE_P(Hundreds, PlannerSweep, ::testing::Range<std::uint64_t>(0, 10));

// What the cases of a sweep have been through.
struct Reached {
  std::map<Way, int> ways;                     // tensors that came so
  std::map<std::string, int> placements;       // tensors placed so on some axis, with something in them
  std::map<std::string, int> storage;          // how tensors are stored
  int cases = 0, refused = 0, joined = 0, converted = 0, several_rounds = 0;

  void add(const RandomCase& c, const std::vector<LoadPlan>& plans) {
    ++cases;
    several_rounds += plans[0].rounds.size() > 1;
    const bool baseline = is_baseline(c.params.strategy);
    const std::vector<Way> all = baseline ? std::vector<Way>{} : ways_of(c);
    for (Way way : all) ++ways[way];
    for (std::size_t t = 0; t < c.index.tensors.size(); ++t) {
      const TensorMeta& tensor = c.index.tensors[t];
      if (tensor.elements() == 0 || baseline) continue;
      ++storage[std::string(storage_name(tensor.storage)) + (tensor.filtered() ? ", filtered" : "")];
      converted += plans[0].dtypes[t] != tensor.dtype;
      std::set<std::string> kinds;
      int cuts = 0;
      for (std::size_t a = 0; a < c.mesh.size(); ++a) {
        if (c.mesh[a] == 1) continue;
        const int dim = c.dims[t][a];
        cuts += dim != -1;
        if (dim == -1) kinds.insert("R");
        if (dim == slabload::testing::kFlatCode) kinds.insert("F");
        if (dim >= 100) kinds.insert("SS");
        if (dim == 0) kinds.insert("S(0)");
        if (dim > 0 && dim < 100) kinds.insert("S(inner)");
      }
      if (cuts > 1) kinds.insert("two cuts");
      for (const std::string& kind : kinds) ++placements[kind];
    }
    for (const LoadPlan& plan : plans) {
      for (const Round& round : plan.rounds) {
        for (const ReadItem& read : round.reads) joined += read.joined;
      }
    }
  }

  // In the report of the tests, and on the screen.
  void record(const std::string& name) const {
    std::string text = fmt::format("{}: {} cases, {} refused budgets, {} joined reads, {} converted;", name, cases,
                                   refused, joined, converted);
    auto say = [&](const std::string& what, int count) {
      ::testing::Test::RecordProperty(what, count);
      text += fmt::format(" {} {},", what, count);
    };
    for (const auto& [way, count] : ways) say(std::string(way_name(way)), count);
    for (const auto& [kind, count] : placements) say(kind, count);
    for (const auto& [kind, count] : storage) say(kind, count);
    std::printf("%s\n", text.c_str());
  }
};

void expect_right_cases(Reached& reached, std::uint64_t first, std::uint64_t cases, RandomCase (*make)(std::uint64_t)) {
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    RandomCase c = make(seed);
    SCOPED_TRACE(c.text());
    try {
      std::vector<LoadPlan> plans = plans_within_budget(c, &reached.refused);
      validate(c.index, c.layout(), c.params, plans);
      expect_right(c, plans);
      reached.add(c, plans);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// Every way of bringing a tensor in, with every kind of placement.
TEST(PlannerProperty, EveryWayIsRight) {
  Reached reached;
  expect_right_cases(reached, 0, 1200, [](std::uint64_t seed) { return rich_case(seed, {.most_elements = 1200}); });
  reached.record("ways");
  for (Way way : {Way::direct, Way::relay, Way::exchange, Way::spread, Way::reread}) EXPECT_GE(reached.ways[way], 300) << way_name(way);
  for (const char* kind : {"R", "F", "SS", "S(0)", "S(inner)", "two cuts"}) EXPECT_GE(reached.placements[kind], 500) << kind;
  EXPECT_EQ(reached.storage.size(), 7u);
  for (const auto& [kind, count] : reached.storage) EXPECT_GE(count, 50) << kind;
  EXPECT_GE(reached.joined, 1000);
  EXPECT_GE(reached.converted, 300);
  EXPECT_GE(reached.refused, 50);
  EXPECT_GE(reached.several_rounds, 300);
}

// The rules of presets on real names, with sizes that do not divide.
TEST(PlannerProperty, PresetsAreRight) {
  Reached reached;
  expect_right_cases(reached, 0, 300, preset_case);
  reached.record("presets");
  for (Way way : {Way::direct, Way::relay, Way::exchange, Way::spread}) EXPECT_GE(reached.ways[way], 80) << way_name(way);
  for (const char* kind : {"R", "F", "S(0)", "S(inner)", "two cuts"}) EXPECT_GE(reached.placements[kind], 500) << kind;
}

// Which ranks read something of each chunk of a filtered tensor, and in how many reads.
struct ChunkUse {
  std::set<std::uint64_t> ranks;
  int reads = 0;
};

std::vector<ChunkUse> chunk_use(const TensorMeta& tensor, std::uint32_t t,
                                const std::vector<LoadPlan>& plans) {
  std::vector<std::uint64_t> counts;
  std::uint64_t total = 1;
  for (std::size_t d = 0; d < tensor.shape.ndim(); ++d) {
    counts.push_back((tensor.shape[d] + tensor.chunk[d] - 1) / tensor.chunk[d]);
    total *= counts.back();
  }
  std::vector<ChunkUse> use(total);
  for (const LoadPlan& plan : plans) {
    for (const Round& round : plan.rounds) {
      for (const ReadItem& item : round.reads) {
        if (item.tensor != t) continue;
        for (std::uint64_t number = 0; number < total; ++number) {
          std::uint64_t rest = number;
          bool meets = true;
          for (std::size_t d = counts.size(); d-- > 0; rest /= counts[d]) {
            std::uint64_t begin = rest % counts[d] * tensor.chunk[d];
            std::uint64_t end = begin + tensor.chunk[d];
            meets = meets && item.box.start[d] < end && begin < item.box.start[d] + item.box.extent[d];
          }
          if (!meets) continue;
          use[number].ranks.insert(plan.rank);
          ++use[number].reads;
        }
      }
    }
  }
  return use;
}

TEST(SlabPlanner, OneRankDecodesAChunkWhereTheBudgetAllows) {
  int chunks = 0;
  for (std::uint64_t seed = 5000; seed < 5150; ++seed) {
    RandomCase c = random_case(seed);
    c.params.strategy = "slab";
    c.params.staging = 64 << 20;
    c.params.round_bytes = 64 << 20;
    SCOPED_TRACE(c.text());
    std::vector<LoadPlan> plans = plans_of(c.index, c.layout(), c.params);
    for (std::uint32_t t = 0; t < c.index.tensors.size(); ++t) {
      if (!c.index.tensors[t].filtered()) continue;
      for (const ChunkUse& use : chunk_use(c.index.tensors[t], t, plans)) {
        ASSERT_EQ(use.ranks.size(), 1u) << c.index.tensors[t].name;
        ASSERT_EQ(use.reads, 1) << c.index.tensors[t].name;
        ++chunks;
      }
    }
  }
  EXPECT_GT(chunks, 1000);
}

// Bands of chunks that fit one by one but not all at once: still no chunk twice.
TEST(SlabPlanner, KeepsChunksWholeInSmallRounds) {
  RandomCase c = random_case(1);
  c.index.tensors.resize(1);
  TensorMeta& tensor = c.index.tensors[0];
  tensor = TensorMeta{};
  tensor.name = "w";
  tensor.shape = Shape{640, 96};
  tensor.storage = StorageKind::chunked;
  tensor.chunk = Dims{32, 32};
  tensor.filters = {"deflate(6)"};
  Layout layout = Layout::preset("fsdp2", Mesh({{"dp_shard", 5}}));
  PlanParams params;
  params.staging = 2 * 3 * 32 * 96 * 4;  // three bands a slot
  std::vector<LoadPlan> plans = plans_of(c.index, layout, params);
  EXPECT_GT(plans[0].rounds.size(), 1u);
  for (const ChunkUse& use : chunk_use(tensor, 0, plans)) {
    EXPECT_EQ(use.ranks.size(), 1u);
    EXPECT_EQ(use.reads, 1);
  }
  // With less than a band it has to cut through chunks, and does.
  params.staging = 2 * 12000;
  params.min_read = 1 << 20;
  plans = plans_of(c.index, layout, params);
  validate(c.index, layout, params, plans);
  bool shared = false;
  for (const ChunkUse& use : chunk_use(tensor, 0, plans)) shared |= use.reads > 1;
  EXPECT_TRUE(shared);
}

TensorMeta plain_tensor(const std::string& name, DType dtype, Shape shape) {
  TensorMeta tensor;
  tensor.name = tensor.path = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.stored_bytes = tensor.bytes();
  return tensor;
}

TEST(SlabPlanner, RanksWithoutAShardReadForOthers) {
  TensorIndex index;
  index.tensors = {plain_tensor("few", DType::f32, Shape{3, 20000}),
                   plain_tensor("none", DType::f32, Shape{0, 5}), plain_tensor("one", DType::u8, Shape{1})};
  Layout layout = Layout::preset("fsdp2", Mesh({{"dp_shard", 12}}));
  for (std::uint64_t min_read : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
    PlanParams params;
    params.min_read = min_read;
    std::vector<LoadPlan> plans = plans_of(index, layout, params);
    validate(index, layout, params, plans);
    RandomCase c;
    c.index = index;
    c.mesh = {12};
    c.dims = {{0}, {0}, {0}};
    c.params = params;
    expect_right(c, plans);
    EXPECT_EQ(plans[11].shard_bytes, 0u);
  }
  // Merged reads are even: a rank without a shard reads a twelfth like all others.
  std::uint64_t bytes = 0;
  PlanParams linear;
  linear.strategy = "linear";
  std::vector<LoadPlan> plans = plans_of(index, layout, linear);
  for (const Round& round : plans[11].rounds) {
    for (const ReadItem& item : round.reads)
      bytes += item.box.elements() * dtype_size(index.tensors[item.tensor].dtype);
  }
  EXPECT_NEAR(static_cast<double>(bytes), 240000.0 / 12, 16385);
}

TEST(SlabPlanner, PlansATensorOfATrillionBytesWithoutItsMemory) {
  TensorIndex index;
  index.tensors = {plain_tensor("huge", DType::bf16, Shape{1000000, 100000}),
                   plain_tensor("flat", DType::f64, Shape{100000000007})};
  for (const char* preset : {"fsdp2", "replicate"}) {
    Layout layout = Layout::preset(preset, Mesh({{"dp_shard", 48}}));
    PlanParams params;
    auto planner = Planner::make(index, layout, params);
    std::uint64_t read = 0;
    Validator validator(index, layout, params);
    for (std::uint64_t rank = 0; rank < 48; ++rank) {
      LoadPlan plan = planner->plan(rank);
      validator.add(plan);
      EXPECT_LE(plan.stage_bytes * plan.rounds_at_once, params.staging);
      for (const Round& round : plan.rounds) {
        for (const ReadItem& item : round.reads) {
          std::uint64_t bytes = item.box.elements() * dtype_size(index.tensors[item.tensor].dtype);
          EXPECT_LT(bytes, std::uint64_t{1} << 30);
          read += bytes;
        }
      }
    }
    validator.finish();
    EXPECT_EQ(read, std::uint64_t{2} * 100000000000 + std::uint64_t{8} * 100000000007);
  }
}

TEST(SlabPlanner, TakesAHundredThousandTinyTensors) {
  TensorIndex index;
  for (int t = 0; t < 100000; ++t) {
    index.tensors.push_back(
        plain_tensor(fmt::format("t{}", t), DType::f16, Shape{static_cast<std::uint64_t>(1 + t % 300)}));
  }
  PlanParams params;
  for (const char* preset : {"fsdp2", "replicate"}) {
    Layout layout = Layout::preset(preset, Mesh({{"dp_shard", 64}}));
    auto planner = Planner::make(index, layout, params);
    LoadPlan plan = planner->plan(5);
    std::uint64_t bytes = 0;
    for (const Round& round : plan.rounds) {
      for (const ReadItem& item : round.reads) bytes += item.box.elements() * 2;
    }
    double mean = static_cast<double>(index.total_bytes()) / 64;
    EXPECT_LT(static_cast<double>(bytes), 1.05 * mean) << preset;
    EXPECT_GT(static_cast<double>(bytes), 0.95 * mean) << preset;
  }
}

TEST(SlabPlanner, TakesSixteenMeshAxes) {
  RandomCase c = random_case(77);
  c.index.tensors = {plain_tensor("a", DType::f32, Shape{37, 11, 5}),
                     plain_tensor("b", DType::bf16, Shape{130, 70}), plain_tensor("s", DType::i64, Shape{})};
  c.mesh.assign(16, 1);
  c.mesh[3] = c.mesh[8] = c.mesh[15] = 2;
  c.mesh[5] = 3;
  c.axes.clear();
  for (int a = 0; a < 16; ++a) c.axes.push_back(fmt::format("m{}", a));
  c.preset.clear();
  c.rules =
      R"json({"rules": [{"match": "a", "placements": {"m3": "S(1)", "m5": "S(0)", "m8": "S(-1)", "m0": "S(2)"}},
                          {"match": "b", "placements": {"m15": "S(0)", "m3": "S(0)", "m5": "S(1)"}}], "default": {}})json";
  c.dims.assign(3, std::vector<int>(16, -1));
  c.dims[0][3] = 1;
  c.dims[0][5] = 0;
  c.dims[0][8] = 2;
  c.dims[0][0] = 2;
  c.dims[1][15] = 0;
  c.dims[1][3] = 0;
  c.dims[1][5] = 1;
  c.params = PlanParams{};
  for (std::uint64_t min_read : {std::uint64_t{0}, std::uint64_t{500}, std::uint64_t{1} << 20}) {
    c.params.min_read = min_read;
    std::vector<LoadPlan> plans = plans_of(c.index, c.layout(), c.params);
    validate(c.index, c.layout(), c.params, plans);
    expect_right(c, plans);
  }
}

TEST(SlabPlanner, NamesTheSlotThatItNeeds) {
  TensorIndex index;
  index.tensors = {plain_tensor("columns", DType::f64, Shape{900, 2000})};
  Layout layout = Layout::from_json(R"j({"rules": [{"match": "*", "placements": {"tp": "S(1)"}}]})j",
                                    "r.json", Mesh({{"tp", 3}}), 3);
  PlanParams params;
  params.slot_bytes = 4096;
  Error refused = thrown_error([&] { Planner::make(index, layout, params); });
  EXPECT_EQ(refused.status(), Status::usage);
  ASSERT_THAT(refused.message(),
              HasSubstr("--slot-bytes 4 KiB: too small for this plan, which needs slots of "));
  // The number that it names works, and is not far from being the least.
  const std::uint64_t needed = std::stoull(refused.message().substr(refused.message().find("slots of ") + 9));
  params.slot_bytes = needed;
  EXPECT_EQ(plans_of(index, layout, params)[0].rounds_at_once, 2u);
  params.slot_bytes = needed - 1;
  EXPECT_THAT(thrown_error([&] { Planner::make(index, layout, params); }).message(),
              HasSubstr("--slot-bytes"));
}

TEST(Planner, NamesAStrategyThatThereIsNot) {
  RandomCase c = random_case(1);
  c.params.strategy = "fastest";
  Error error = thrown_error([&] { plans_of(c.index, c.layout(), c.params); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), HasSubstr("fastest"));
}

TEST(Planner, EveryStrategySaysWhy) {
  RandomCase c = random_case(1);
  for (const char* strategy : {"slab", "linear", "auto", "rank0-broadcast", "rank0-full", "every-rank"}) {
    c.params.strategy = strategy;
    c.params.staging = 64 << 20;
    Layout layout = c.layout();
    std::string why = Planner::make(c.index, layout, c.params)->why();
    EXPECT_FALSE(why.empty());
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
}

TEST(ScanPlan, ReadsEveryElementOnceAndEvenly) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    RandomCase c = random_case(seed);
    SCOPED_TRACE(c.text());
    std::uint64_t ranks = 1 + seed % 9;
    std::uint64_t piece = Random(seed).of<std::uint64_t>({1, 50, 999, 5000, 4 << 20});
    std::vector<LoadPlan> plans;
    std::uint64_t slack = 8;  // of a share's two ends: an element, or a band of filtered chunks
    for (std::uint64_t rank = 0; rank < ranks; ++rank)
      plans.push_back(plan_scan(c.index, ranks, rank, piece));
    std::vector<std::vector<int>> seen;
    for (const TensorMeta& tensor : c.index.tensors) {
      seen.emplace_back(tensor.elements(), 0);
      if (tensor.filtered() && tensor.elements() > 0) {
        slack = std::max(slack, tensor.chunk[0] * (tensor.bytes() / tensor.shape[0]));
      }
    }
    for (const LoadPlan& plan : plans) {
      std::uint64_t bytes = 0;
      for (const Round& round : plan.rounds) {
        ASSERT_LE(round.stage_bytes, plan.stage_bytes);
        ASSERT_TRUE(round.fills.empty() && round.packs.empty() && round.unpacks.empty());
        std::uint64_t end = 0;
        for (const ReadItem& item : round.reads) {
          ASSERT_EQ(item.to.space, Space::stage);
          ASSERT_EQ(item.to.offset, end);
          ASSERT_EQ(round.steps.at(item.step).tensor, item.tensor);
          const Shape& shape = c.index.tensors[item.tensor].shape;
          std::uint64_t size = dtype_size(c.index.tensors[item.tensor].dtype);
          end += item.box.elements() * size;
          for_each_run(shape, item.box, [&](std::uint64_t begin, std::uint64_t length) {
            for (std::uint64_t i = begin; i < begin + length; ++i) ++seen[item.tensor].at(i);
          });
        }
        ASSERT_LE(end, round.stage_bytes);
        ASSERT_LE(end, std::max<std::uint64_t>(piece, 8));
        bytes += end;
      }
      double mean = static_cast<double>(c.index.total_bytes()) / static_cast<double>(ranks);
      ASSERT_LE(std::abs(static_cast<double>(bytes) - mean), static_cast<double>(2 * slack)) << plan.rank;
    }
    for (std::size_t t = 0; t < seen.size(); ++t) {
      for (int n : seen[t]) ASSERT_EQ(n, 1) << c.index.tensors[t].name;
    }
  }
}

}  // namespace
}  // namespace slabload
