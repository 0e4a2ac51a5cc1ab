// The validator against plans that were right until one thing in them was changed.
#include "plan/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using slabload::testing::Subject;
using slabload::testing::thrown_error;
using ::testing::HasSubstr;

void validate(const Subject& s) {
  Layout layout = s.c.layout();
  Validator validator(s.c.index, layout, s.c.params);
  for (const LoadPlan& plan : s.plans) validator.add(plan);
  validator.finish();
}

// Valid plans to break, of 2 to 12 ranks; every third a baseline's.
const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    std::vector<Subject> out;
    for (std::uint64_t seed = 9000; out.size() < 150; ++seed) {
      Subject s{random_case(seed, {.most_elements = 400}), {}};
      if (s.c.ranks() < 2) continue;
      if (s.c.params.staging < 2000 || s.c.params.cast) s.c.params.staging = 150000;
      s.c.params.min_read = std::min<std::uint64_t>(s.c.params.min_read, 1000);
      Layout layout = s.c.layout();
      try {
        // What is broken below is broken in plans of the usual two rounds under way.
        s.c.params.pinned = false;
        s.c.params.slots = s.c.params.slot_bytes = 0;
        auto planner = Planner::make(s.c.index, layout, s.c.params);
        for (std::uint64_t rank = 0; rank < s.c.ranks(); ++rank) s.plans.push_back(planner->plan(rank));
      } catch (const Error&) {
        continue;  // does not fit
      }
      validate(s);
      out.push_back(std::move(s));
    }
    return out;
  }();
  return all;
}

class ValidatorMutation : public ::testing::TestWithParam<NamedMutation> {};

TEST_P(ValidatorMutation, IsNeverAccepted) {
  Random random(11);
  int broken = 0;
  for (std::size_t i = 0; i < 2 * subjects().size(); ++i) {
    Subject s = subjects()[i % subjects().size()];
    if (!GetParam().mutate(s, random)) continue;
    ++broken;
    try {
      validate(s);
      ADD_FAILURE() << "accepted: mutation " << i << " of " << s.c.text();
      return;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::internal);
      EXPECT_THAT(error.message(), HasSubstr("the plan is wrong"));
    }
  }
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

}  // namespace
}  // namespace slabload
