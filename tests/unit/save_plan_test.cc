// Save plans of random checkpoints, layouts and budgets, run by an interpreter of the tests' own.
#include "plan/save_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fakes/plan_runner.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"
#include "fakes/save_runner.h"
#include "plan/validate.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::pattern_bits;
using slabload::testing::RandomCase;
using slabload::testing::rich_case;
using slabload::testing::run_saves;
using slabload::testing::thrown_error;
using ::testing::HasSubstr;

// What a save makes of a case's tensors: plain or chunked, in one file, one behind the other.
void make_target(RandomCase& c) {
  std::uint64_t offset = 4096;
  for (TensorMeta& tensor : c.index.tensors) {
    tensor.big_endian = false;
    tensor.file = 0;
    tensor.fill.clear();
    tensor.crc64.reset();
    // More of them than the cases have.
    const std::size_t number = static_cast<std::size_t>(&tensor - c.index.tensors.data());
    if (!tensor.chunked() && tensor.shape.ndim() > 0 && (number + c.seed) % 4 == 0) {
      tensor.chunk = tensor.shape.lengths();
      tensor.chunk[0] = std::max<std::uint64_t>(1, tensor.shape[0] / 3);
      if (c.seed % 3 != 0) tensor.filters = {"deflate(6)"};
      tensor.storage = StorageKind::chunked;
    }
    const bool chunked = tensor.chunked() && tensor.elements() != 0;
    tensor.storage = chunked ? StorageKind::chunked : StorageKind::contiguous;
    if (!chunked) {
      tensor.chunk.clear();
      tensor.filters.clear();
    } else {
      // A save's chunks are whole rows.
      for (std::size_t d = 1; d < tensor.shape.ndim(); ++d) tensor.chunk[d] = tensor.shape[d];
    }
    tensor.offset = chunked ? 0 : offset;
    tensor.stored_bytes = tensor.bytes();
    if (!chunked) offset += tensor.bytes();
  }
  c.params.cast.reset();
}

std::string pattern(const TensorMeta& tensor, std::size_t t, const std::vector<std::uint64_t>& elements) {
  std::string out;
  for (std::uint64_t i : elements)
    slabload::testing::append_bits(out, pattern_bits(t, i), dtype_size(tensor.dtype));
  return out;
}

struct Reach {
  int cases = 0, messages = 0, straight = 0, filtered = 0, several_rounds = 0, replicas = 0, refused = 0;
};

void expect_right(RandomCase& c, Reach& reached) {
  const Layout layout = c.layout();
  std::optional<SavePlanner> planner;
  try {
    planner.emplace(c.index, layout, c.params);
  } catch (const Error& error) {
    ASSERT_EQ(error.status(), Status::usage) << error.message();
    c.params.staging = slabload::testing::named_budget(error);
    ++reached.refused;
    planner.emplace(c.index, layout, c.params);
  }
  Validator validator(c.index, layout, planner->params());
  std::vector<SavePlan> plans;
  std::vector<std::string> shards;
  for (std::uint64_t rank = 0; rank < c.ranks(); ++rank) {
    validator.add(planner->unturned(rank));
    plans.push_back(planner->plan(rank));
    const LoadPlan& plan = plans.back().load;
    std::string& space = shards.emplace_back(plan.shard_bytes, '\xaa');
    for (std::size_t t = 0; t < c.index.tensors.size(); ++t) {
      const std::string part = pattern(c.index.tensors[t], t, c.held(t, rank));
      ASSERT_EQ(part.size(), plan.shards[t].bytes);
      space.replace(plan.shards[t].offset, part.size(), part);
      reached.replicas += plan.replicas[t] >= 0;
    }
    for (const Round& round : plan.rounds) {
      reached.messages += static_cast<int>(round.fills.size());
      for (const ReadItem& item : round.reads) {
        reached.straight += item.to.space == Space::shard;
        reached.filtered += c.index.tensors[item.tensor].filtered();
      }
    }
  }
  validator.finish();
  ++reached.cases;
  reached.several_rounds += plans[0].load.rounds.size() > 1;
  const std::vector<std::string> files = run_saves(c.index, plans, shards);
  for (std::size_t t = 0; t < files.size(); ++t) {
    std::vector<std::uint64_t> all(c.index.tensors[t].elements());
    for (std::uint64_t i = 0; i < all.size(); ++i) all[i] = i;
    ASSERT_TRUE(files[t] == pattern(c.index.tensors[t], t, all)) << c.index.tensors[t].name;
  }
}

TEST(SavePlan, EveryElementIsWrittenOnceAndRight) {
  Reach reached;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    RandomCase c = rich_case(seed, {.most_elements = 800});
    make_target(c);
    SCOPED_TRACE(c.text());
    try {
      expect_right(c, reached);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) return;
  }
  EXPECT_EQ(reached.cases, 500);
  EXPECT_GE(reached.messages, 5000);
  EXPECT_GE(reached.straight, 3000);
  EXPECT_GE(reached.filtered, 300);
  EXPECT_GE(reached.several_rounds, 100);
  EXPECT_GE(reached.replicas, 2000);
  EXPECT_GE(reached.refused, 4);
}

// A compressed chunk is written by one rank, as a whole.
TEST(SavePlan, ChunksAreNotCut) {
  int chunks = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomCase c = rich_case(seed, {.most_elements = 800});
    make_target(c);
    SCOPED_TRACE(c.text());
    const Layout layout = c.layout();
    c.params.staging = 64 << 20;
    c.params.slot_bytes = 0;
    SavePlanner planner(c.index, layout, c.params);
    for (std::uint64_t rank = 0; rank < c.ranks(); ++rank) {
      for (const Round& round : planner.plan(rank).load.rounds) {
        for (const ReadItem& item : round.reads) {
          const TensorMeta& tensor = c.index.tensors[item.tensor];
          if (!tensor.filtered()) continue;
          const std::uint64_t end = item.box.start[0] + item.box.extent[0];
          EXPECT_EQ(item.box.start[0] % tensor.chunk[0], 0u);
          EXPECT_TRUE(end % tensor.chunk[0] == 0 || end == tensor.shape[0]);
          for (std::size_t d = 1; d < tensor.shape.ndim(); ++d) EXPECT_EQ(item.box.extent[d], tensor.shape[d]);
          ++chunks;
        }
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(chunks, 100);
}

TEST(SavePlan, RefusesABaseline) {
  RandomCase c = rich_case(1);
  make_target(c);
  c.params.strategy = "rank0-full";
  const Layout layout = c.layout();
  Error error = thrown_error([&] { SavePlanner(c.index, layout, c.params); });
  EXPECT_EQ(error.status(), Status::usage);
  EXPECT_THAT(error.message(), HasSubstr("rank0-full"));
}

}  // namespace
}  // namespace slabload
