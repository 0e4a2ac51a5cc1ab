// Saves through the real parts: shards of random layouts become the checkpoint that they are parts of.
#include "exec/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "backend/host/device.h"
#include "backend/mpi/control.h"
#include "backend/mpi/fabric.h"
#include "base/crc64.h"
#include "fakes/memory_sink.h"
#include "fakes/plan_runner.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"
#include "mpi/loader_run.h"

namespace slabload {
namespace {

using slabload::testing::MemorySink;
using slabload::testing::pattern_bits;
using slabload::testing::QuietMonitor;
using slabload::testing::RandomCase;
using slabload::testing::random_case;
using ::testing::HasSubstr;

std::uint64_t world() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return static_cast<std::uint64_t>(ranks);
}

// Plain tensors, some of them one behind the other in the file without a gap.
void make_target(RandomCase& c) {
  std::uint64_t offset = 2048;
  for (TensorMeta& tensor : c.index.tensors) {
    tensor.big_endian = false;
    tensor.storage = StorageKind::contiguous;
    tensor.file = 0;
    tensor.chunk.clear();
    tensor.filters.clear();
    tensor.fill.clear();
    tensor.crc64.reset();
    tensor.offset = offset;
    tensor.stored_bytes = tensor.bytes();
    offset += tensor.bytes();
    // An address that its type can have, and now and then a hole.
    offset = (offset + 7) / 8 * 8 + (c.seed % 5 == 0 ? 64 : 0);
  }
  c.params.cast.reset();
  c.params.pinned = false;
}

std::string bytes_of(const TensorMeta& tensor, std::size_t t, const std::vector<std::uint64_t>& elements) {
  std::string out;
  for (std::uint64_t i : elements)
    slabload::testing::append_bits(out, pattern_bits(t, i), dtype_size(tensor.dtype));
  return out;
}

struct Saved {
  std::vector<std::uint64_t> crc64;
  RankStats stats;
};

// `apart`: every shard in memory of its own.
Saved save(const RandomCase& c, MemorySink& sink, mpi::MpiControl& control, bool apart) {
  const Layout layout = c.layout();
  sink.create(c.index);
  SavePlanner planner(sink.made(), layout, c.params);
  const SavePlan plan = planner.plan(static_cast<std::uint64_t>(control.rank()));
  std::vector<std::string> parts;
  std::string space(plan.load.shard_bytes, '\x5a');
  for (std::size_t t = 0; t < c.index.tensors.size(); ++t) {
    parts.push_back(bytes_of(c.index.tensors[t], t, c.held(t, plan.load.rank)));
    EXPECT_EQ(parts.back().size(), plan.load.shards[t].bytes);
    space.replace(plan.load.shards[t].offset, parts.back().size(), parts.back());
  }
  ShardSource source;
  if (apart) {
    for (const std::string& part : parts) source.apart.push_back(reinterpret_cast<const std::byte*>(part.data()));
  } else {
    source.space = reinterpret_cast<const std::byte*>(space.data());
  }
  host::HostDevice device;
  mpi::MpiFabric fabric(MPI_COMM_WORLD);
  QuietMonitor monitor;
  Saved out;
  Timeline timeline;
  Saver saver(sink, {device, fabric, control, monitor}, checked_split(c.params, false));
  out.crc64 = saver.run(plan, source, out.stats, timeline);
  EXPECT_EQ(monitor.done, monitor.total);
  return out;
}

RandomCase case_of(std::uint64_t seed) {
  RandomCase c = random_case(seed, {.most_elements = 1500, .ranks = world()});
  if (is_baseline(c.params.strategy)) c.params.strategy = seed % 2 == 0 ? "auto" : "slab";
  make_target(c);
  try {
    const Layout layout = c.layout();
    SavePlanner(c.index, layout, c.params);
  } catch (const Error& error) {
    c.params.staging = slabload::testing::named_budget(error);
  }
  return c;
}

TEST(Saver, ShardsOfAnyLayoutBecomeTheCheckpoint) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  int extents = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomCase c = case_of(seed);
    SCOPED_TRACE(c.text());
    MemorySink sink(control);
    const Saved saved = save(c, sink, control, seed % 3 == 0);
    sink.commit(saved.crc64);
    extents += sink.extents;
    std::uint64_t written = saved.stats.write_bytes;
    control.sum({&written, 1});
    EXPECT_EQ(written, c.index.total_bytes());
    EXPECT_LE(saved.stats.staging_peak, c.params.staging);
    for (std::size_t t = 0; t < c.index.tensors.size(); ++t) {
      std::vector<std::uint64_t> all(c.index.tensors[t].elements());
      for (std::uint64_t i = 0; i < all.size(); ++i) all[i] = i;
      const std::string want = bytes_of(c.index.tensors[t], t, all);
      EXPECT_TRUE(sink.bytes(t) == want) << c.index.tensors[t].name;
      EXPECT_EQ(saved.crc64[t], crc64_finish(crc64_part(want.data(), want.size()), want.size()));
    }
    if (HasFailure()) return;
  }
  std::uint64_t all = static_cast<std::uint64_t>(extents);
  control.sum({&all, 1});
  EXPECT_GT(all, 20u);  // several tensors in a request
}

// Whichever rank cannot write: all end with its error.
TEST(Saver, OneRanksErrorEndsAll) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  int failed = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const RandomCase c = case_of(seed);
    SCOPED_TRACE(c.text());
    MemorySink sink(control);
    const auto rank = static_cast<int>(seed % world());
    if (control.rank() == rank) sink.fail_write = static_cast<int>(seed % 3);
    std::string message;
    try {
      save(c, sink, control, false);
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      EXPECT_EQ(error.status(), Status::file);
      EXPECT_EQ(error.rank(), rank);
      message = error.message();
      EXPECT_THAT(message, HasSubstr("the disk is full"));
      EXPECT_THAT(message, HasSubstr("tensor"));
    }
    std::uint64_t told = message.empty() ? 0 : 1;
    std::uint64_t most = told;
    control.max({&most, 1});
    EXPECT_EQ(told, most) << "some ranks know of no error";
    failed += message.empty() ? 0 : 1;
  }
  EXPECT_GE(failed, 6);  // a rank may have too few writes
}

}  // namespace
}  // namespace slabload
