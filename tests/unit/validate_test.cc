// The validator against plans that were right until one thing in them was changed.
#include "plan/validate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "fakes/plan_mutations.h"
#include "fakes/random_case.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::NamedMutation;
using slabload::testing::plan_mutations;
using slabload::testing::Random;
using slabload::testing::random_case;
using slabload::testing::RandomCase;
using slabload::testing::rich_case;
using slabload::testing::Subject;
using slabload::testing::thrown_error;
using slabload::testing::ways_of;
using ::testing::HasSubstr;

void validate(const Subject& s) {
  Layout layout = s.c.layout();
  Validator validator(s.c.index, layout, s.c.params);
  for (const LoadPlan& plan : s.plans) validator.add(plan);
  validator.finish();
}

// Adds a case's plans if it has several ranks and fits its budget.
void add_subject(std::vector<Subject>& out, RandomCase c) {
  Subject s{std::move(c), {}};
  if (s.c.ranks() < 2) return;
  // What is broken below is broken in plans of the usual two rounds under way.
  s.c.params.pinned = false;
  s.c.params.slots = s.c.params.slot_bytes = 0;
  Layout layout = s.c.layout();
  try {
    auto planner = Planner::make(s.c.index, layout, s.c.params);
    for (std::uint64_t rank = 0; rank < s.c.ranks(); ++rank) s.plans.push_back(planner->plan(rank));
  } catch (const Error&) {
    return;
  }
  validate(s);
  out.push_back(std::move(s));
}

// Valid plans to break, of 2 to 12 ranks: of every way of bringing tensors in, and of the baselines.
const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    std::vector<Subject> out;
    for (std::uint64_t seed = 9000; out.size() < 160; ++seed) {
      RandomCase c = random_case(seed, {.most_elements = 400});
      if (c.params.staging < 2000 || c.params.cast) c.params.staging = 150000;
      c.params.min_read = std::min<std::uint64_t>(c.params.min_read, 1000);
      add_subject(out, std::move(c));
    }
    for (std::uint64_t seed = 0; out.size() < 400; ++seed) {
      RandomCase c = rich_case(seed, {.most_elements = 500});
      if (c.params.cast) c.params.staging = 200000;
      add_subject(out, std::move(c));
    }
    return out;
  }();
  return all;
}

TEST(Validator, IsTriedOnPlansOfEveryWay) {
  std::map<Way, int> tensors;
  int joined = 0;
  int collectives = 0;  // rounds of a rank with several
  for (const Subject& s : subjects()) {
    if (is_baseline(s.c.params.strategy)) continue;
    for (Way way : ways_of(s.c)) ++tensors[way];
    for (const LoadPlan& plan : s.plans) {
      for (const Round& round : plan.rounds) {
        joined += static_cast<int>(std::count_if(round.reads.begin(), round.reads.end(),
                                                 [](const ReadItem& i) { return i.joined; }));
        collectives += std::count_if(round.fills.begin(), round.fills.end(), [](const FillItem& f) {
                         return f.kind == FillItem::Kind::all_gather || f.kind == FillItem::Kind::broadcast;
                       }) > 1;
      }
    }
  }
  for (Way way : {Way::direct, Way::relay, Way::exchange, Way::spread, Way::reread})
    EXPECT_GE(tensors[way], 40) << way_name(way);
  EXPECT_GE(joined, 500);
  EXPECT_GE(collectives, 500);
}

class ValidatorMutation : public ::testing::TestWithParam<NamedMutation> {
 protected:
  // How often plans were broken and rejected, by property; in the report of the tests, and on the screen.
  static void TearDownTestSuite() {
    std::string text;
    int all = 0;
    for (std::size_t p = 0; p < rejected_.size(); ++p) {
      const std::string name = slabload::testing::kPropertyNames.at(p);
      RecordProperty("rejected_" + name, rejected_.at(p));
      text += fmt::format(" {} {},", name, rejected_.at(p));
      all += rejected_.at(p);
    }
    RecordProperty("rejected", all);
    std::printf("broken plans rejected:%s %d in all\n", text.c_str(), all);
    if (mutations_ < plan_mutations().size()) return;  // only some of the tests were asked for
    EXPECT_GE(all, 20000);
    for (int count : rejected_) EXPECT_GE(count, 300);
  }
  static inline std::array<int, slabload::testing::kPropertyNames.size()> rejected_{};
  static inline std::size_t mutations_ = 0;
};

TEST_P(ValidatorMutation, IsNeverAccepted) {
  Random random(11);
  int broken = 0;
  ++mutations_;
  for (std::size_t i = 0; i < subjects().size(); ++i) {
    Subject s = subjects()[i];
    if (!GetParam().mutate(s, random)) continue;
    try {
      validate(s);
      ADD_FAILURE() << "accepted: mutation " << i << " of " << s.c.text();
      return;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::internal);
      EXPECT_THAT(error.message(), HasSubstr("the plan is wrong"));
    }
    ++broken;
  }
  RecordProperty("rejected", broken);
  rejected_.at(static_cast<std::size_t>(GetParam().property)) += broken;
  // Enough plans have something of the kind.
  EXPECT_GE(broken, 20);
}

INSTANTIATE_TEST_SUITE_P(All, ValidatorMutation, ::testing::ValuesIn(plan_mutations()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Validator, NamesRankRoundAndTensor) {
  Subject s = subjects()[0];
  for (const Subject& candidate : subjects()) {
    if (candidate.plans[0].rounds.size() > 1 && !candidate.plans[1].rounds[1].reads.empty()) s = candidate;
  }
  ReadItem& read = s.plans[1].rounds[1].reads.front();
  read.to.offset += 1;
  Error error = thrown_error([&] { validate(s); });
  EXPECT_THAT(error.message(), HasSubstr("rank 1, round 1, tensor " + s.c.index.tensors[read.tensor].name));
}

TEST(Validator, TakesPlansInAnyOrder) {
  for (std::size_t i = 0; i < 20; ++i) {
    Subject s = subjects()[i];
    std::reverse(s.plans.begin(), s.plans.end());
    EXPECT_NO_THROW(validate(s));
    std::rotate(s.plans.begin(), s.plans.begin() + 1, s.plans.end());
    EXPECT_NO_THROW(validate(s));
  }
}

// An item of 1 GiB is refused even where everything else about it is right.
TEST(Validator, RefusesReadsOfAGibibyte) {
  TensorMeta tensor;
  tensor.name = "w";
  tensor.dtype = DType::u8;
  tensor.shape = Shape{kItemLimit};
  Subject s;
  s.c.index.tensors = {tensor};
  s.c.preset = "fsdp2";
  s.c.axes = {"dp_shard"};
  s.c.mesh = {1};
  Layout layout = s.c.layout();
  LoadPlan plan = Planner::make(s.c.index, layout, s.c.params)->plan(0);
  s.plans = {plan};
  EXPECT_NO_THROW(validate(s));
  plan.rounds.resize(1);
  plan.rounds[0].reads = {ReadItem{0, 0, whole_box(tensor.shape), {Space::shard, 0}}};
  plan.rounds[0].steps = {{0, 1}};
  s.plans = {plan};
  Error error = thrown_error([&] { validate(s); });
  EXPECT_THAT(error.message(), HasSubstr("1 GiB"));
}

enum class Huge { read, request, gather, relay, spread };

// Right plans of one round with one item of `bytes` bytes, up to 2 GiB, in them, and everything else smaller.
Subject huge_item(Huge kind, std::uint64_t bytes) {
  Subject s;
  const bool two = kind == Huge::request;
  const std::uint64_t first = two ? bytes / 128 * 64 : bytes;
  for (std::uint64_t length : two ? std::vector{first, bytes - first} : std::vector{bytes}) {
    TensorMeta tensor;
    tensor.name = fmt::format("w{}", s.c.index.tensors.size());
    tensor.dtype = DType::u8;
    tensor.shape = Shape{length};
    tensor.offset = s.c.index.tensors.empty() ? 0 : first;
    s.c.index.tensors.push_back(std::move(tensor));
  }
  s.c.preset = "replicate";
  s.c.axes = {"dp_shard"};
  s.c.mesh = {kind == Huge::read || two ? 1u : 2u};
  s.c.params.staging = std::uint64_t{8} << 30;
  const Layout layout = s.c.layout();
  auto planner = Planner::make(s.c.index, layout, s.c.params);
  const std::uint64_t half = (bytes + 1) / 2;
  for (std::uint64_t rank = 0; rank < s.c.ranks(); ++rank) {
    LoadPlan plan = planner->plan(rank);
    Round round;
    auto read = [&](std::uint32_t t, std::uint64_t begin, std::uint64_t end, Space space, bool joined) {
      const std::uint64_t to = plan.shards[t].offset + begin;
      round.reads.push_back(
          {t, t, Box{Dims{begin}, Dims{end - begin}}, {space, space == Space::stage ? begin : to}, joined});
    };
    round.steps = {{0, 2}};
    round.communicates = s.c.ranks() > 1;
    FillItem fill;
    fill.kind = kind == Huge::gather ? FillItem::Kind::all_gather : FillItem::Kind::broadcast;
    fill.bytes = bytes;
    fill.range = {0, bytes};
    switch (kind) {
      case Huge::read:
        read(0, 0, bytes, Space::shard, false);
        break;
      case Huge::request:
        round.steps.push_back({1, 1});
        read(0, 0, first, Space::shard, false);
        read(1, 0, bytes - first, Space::shard, true);
        break;
      case Huge::gather:
        fill.part = half;
        read(0, rank * half, std::min(bytes, (rank + 1) * half), Space::shard, false);
        break;
      case Huge::spread:
        round.stage_bytes = bytes;
        round.spread = {{0, {0, bytes}, 0}};
        fill.at.space = Space::stage;
        fill.range = {};
        round.unpacks = {{0,
                          whole_box(s.c.index.tensors[0].shape),
                          {Space::stage, 0},
                          whole_box(s.c.index.tensors[0].shape),
                          {Space::shard, 0},
                          whole_box(s.c.index.tensors[0].shape)}};
        [[fallthrough]];
      case Huge::relay:
        if (rank != 0) break;
        read(0, 0, half, fill.at.space, false);
        read(0, half, bytes, fill.at.space, false);
        break;
    }
    if (round.communicates) round.fills = {fill};
    plan.stage_bytes = round.stage_bytes;
    plan.rounds = {round};
    s.plans.push_back(std::move(plan));
  }
  return s;
}

// Everything else about these plans is right: up to the limit they are accepted.
TEST(Validator, RefusesItemsOfEveryKindFromAGibibyteOn) {
  Random random(4);
  int rejected = 0;
  for (Huge kind : {Huge::read, Huge::request, Huge::gather, Huge::relay, Huge::spread}) {
    for (int i = 0; i < 200; ++i) {
      SCOPED_TRACE(fmt::format("kind {}", static_cast<int>(kind)));
      const std::uint64_t beyond = kItemLimit + (i == 0 ? 0 : random.below(kItemLimit - 128));
      ASSERT_THAT(thrown_error([&] { validate(huge_item(kind, beyond)); }).message(), HasSubstr("1 GiB"))
          << beyond;
      ++rejected;
      const std::uint64_t below = kItemLimit - 1 - (i == 0 ? 0 : random.below(kItemLimit / 2));
      ASSERT_NO_THROW(validate(huge_item(kind, below))) << below;
    }
  }
  RecordProperty("rejected", rejected);
}

}  // namespace
}  // namespace slabload
