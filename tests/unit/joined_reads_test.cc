// What lies side by side, in the file and in memory, comes in one request; what does not, does not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/planner.h"
#include "plan/simulate.h"

namespace slabload {
namespace {

// Tensors of a whole number of 64 bytes, end to end.
TensorIndex neighbours(std::uint64_t count, std::uint64_t elements = 256) {
  TensorIndex index;
  index.files = {{"a", 0, 0, 0}, {"b", 0, 0, 0}};
  std::uint64_t offset = 12345;
  for (std::uint64_t t = 0; t < count; ++t) {
    TensorMeta tensor;
    tensor.name = tensor.path = fmt::format("t{}", t);
    tensor.dtype = DType::f32;
    tensor.shape = Shape{elements};
    tensor.offset = offset;
    tensor.stored_bytes = tensor.bytes();
    offset += tensor.bytes();
    index.tensors.push_back(std::move(tensor));
  }
  return index;
}

// Requests of all ranks together.
std::uint64_t requests(const TensorIndex& index, const Layout& layout, const PlanParams& params) {
  std::uint64_t count = 0;
  SimulateOptions options;
  options.watch = [&](const LoadPlan& plan) {
    for (const Round& round : plan.rounds) {
      for (const ReadItem& read : round.reads) count += read.joined ? 0 : 1;
    }
  };
  const PlanSummary summary = simulate(index, layout, params, options);
  EXPECT_EQ(summary.requests.sum, count);
  return count;
}

TEST(JoinedReads, OneRankReadsNeighboursAtOnce) {
  const Layout layout = Layout::preset("replicate", Mesh({{"dp_shard", 1}}));
  EXPECT_EQ(requests(neighbours(100), layout, {}), 1u);
  // As many as rounds.
  PlanParams small;
  small.round_bytes = 10 * 1024;
  EXPECT_EQ(requests(neighbours(100), layout, small), 10u);
}

TEST(JoinedReads, WhatIsApartComesApart) {
  const Layout layout = Layout::preset("replicate", Mesh({{"dp_shard", 1}}));
  TensorIndex index = neighbours(100);
  for (std::size_t t = 40; t < 100; ++t) index.tensors[t].offset += 1;
  EXPECT_EQ(requests(index, layout, {}), 2u) << "a gap in the file";
  index = neighbours(100);
  for (std::size_t t = 40; t < 100; ++t) index.tensors[t].file = 1;
  EXPECT_EQ(requests(index, layout, {}), 2u) << "another file";
  index = neighbours(100);
  for (std::size_t t = 40; t < 60; ++t) index.tensors[t].big_endian = true;
  EXPECT_EQ(requests(index, layout, {}), 22u) << "bytes to be swapped";
  index = neighbours(100);
  for (std::size_t t = 40; t < 60; ++t) index.tensors[t].dtype = DType::i32;
  PlanParams cast;
  cast.cast = DType::bf16;
  EXPECT_EQ(requests(index, layout, cast), 81u) << "values to be converted";
  index = neighbours(100);
  for (std::size_t t = 40; t < 60; ++t) {
    index.tensors[t].storage = StorageKind::chunked;
    index.tensors[t].chunk = Dims{100};
  }
  EXPECT_EQ(requests(index, layout, {}), 22u) << "chunks";
  index = neighbours(100);
  index.tensors[40].storage = StorageKind::compact;
  EXPECT_EQ(requests(index, layout, {}), 3u) << "bytes in a header";
  index = neighbours(100);
  std::swap(index.tensors[10].offset, index.tensors[11].offset);
  EXPECT_EQ(requests(index, layout, {}), 4u) << "in memory in another order than in the file";
  // Shards begin at multiples of 64 bytes.
  EXPECT_EQ(requests(neighbours(100, 17), layout, {}), 100u) << "gaps in memory";
}

TEST(JoinedReads, StagingHasNoGaps) {
  // On several ranks small tensors pass through staging, where they lie as in the file.
  for (const char* preset : {"replicate", "fsdp2"}) {
    const Layout layout = Layout::preset(preset, Mesh({{"dp_shard", 4}}));
    for (std::uint64_t elements : {17, 256}) {
      EXPECT_LE(requests(neighbours(100, elements), layout, {}), 4u) << preset;
      TensorIndex index = neighbours(100, elements);
      for (std::size_t t = 40; t < 100; ++t) index.tensors[t].offset += 1;
      EXPECT_LE(requests(index, layout, {}), 5u) << preset;
    }
  }
}

TEST(JoinedReads, StayBelowTheLimitOfAnItem) {
  // 16 GiB side by side, read by one rank in rounds that would take them all.
  TensorIndex index = neighbours(16384, 262144);
  PlanParams params;
  params.round_bytes = std::uint64_t{64} << 30;
  params.staging = std::uint64_t{64} << 30;
  EXPECT_EQ(requests(index, Layout::preset("replicate", Mesh({{"dp_shard", 1}})), params), 32u);
}

}  // namespace
}  // namespace slabload
