// generate() at any number of ranks: every value by the formula, every checksum right, no error left alone.
#include "exec/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <set>

#include "backend/mpi/control.h"
#include "fakes/memory_sink.h"
#include "index/table.h"
#include "mpi/loader_run.h"

namespace slabload {
namespace {

using slabload::testing::MemorySink;
using slabload::testing::plain_crc64;
using ::testing::HasSubstr;

// A second copy of the formula in tensor/synthetic.h, one element at a time.
std::uint64_t mix(std::uint64_t x) {
  std::uint64_t z = x + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t expected_bits(std::uint64_t seed, const std::string& name, DType dtype, std::uint64_t i) {
  std::uint64_t key = 14695981039346656037ULL ^ mix(seed);
  for (unsigned char c : name) key = (key ^ c) * 1099511628211ULL;
  std::uint64_t size = dtype_size(dtype);
  std::uint64_t byte = i * size;
  std::uint64_t bits = mix(key + byte / 8) >> (8 * (byte % 8));
  if (size < 8) bits &= (std::uint64_t{1} << (8 * size)) - 1;
  switch (dtype) {
    case DType::boolean:
      return bits & 1;
    case DType::f64:
      return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000 ? bits & ~0x4000000000000000ULL : bits;
    case DType::f32:
      return (bits & 0x7fffffff) > 0x7f800000 ? bits & ~0x40000000ULL : bits;
    case DType::bf16:
      return (bits & 0x7fff) > 0x7f80 ? bits & ~0x4000ULL : bits;
    case DType::f16:
      return (bits & 0x7fff) > 0x7c00 ? bits & ~0x4000ULL : bits;
    case DType::f8_e4m3:
      return (bits & 0x7f) == 0x7f ? bits & ~0x40ULL : bits;
    case DType::f8_e5m2:
      return (bits & 0x7f) > 0x7c ? bits & ~0x40ULL : bits;
    default:
      return bits;
  }
}

constexpr const char* kTable =
    "weight\tbf16\t61,33\n"
    "a.f64\tf64\t7,5\n"
    "a.f32\tf32\t101\n"
    "a.f16\tf16\t3,3,3\n"
    "a.e4m3\tf8_e4m3\t257\n"
    "a.e5m2\tf8_e5m2\t255\n"
    "a.bool\tbool\t19\n"
    "a.i64\ti64\t5\n"
    "a.u16\tu16\t11\n"
    "step\ti32\t\n"
    "none\tf32\t0,4\n";

TEST(Generator, WritesTheFormulaWithRightChecksums) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  MemorySink sink(control);
  TensorIndex table = parse_table(kTable, "models/tiny.tsv");
  table.metadata["kept"] = "yes";
  testing::QuietMonitor monitor;
  TransferResult result = generate(sink, control, table, 42, &monitor);
  ASSERT_TRUE(sink.committed());
  EXPECT_EQ(monitor.done, result.bytes);
  EXPECT_EQ(monitor.total, result.bytes);
  ASSERT_EQ(sink.index().tensors.size(), 11u);
  for (std::size_t t = 0; t < 11; ++t) {
    const TensorMeta& meta = sink.index().tensors[t];
    std::string want;
    for (std::uint64_t i = 0; i < meta.elements(); ++i) {
      std::uint64_t bits = expected_bits(42, meta.name, meta.dtype, i);
      want.append(reinterpret_cast<const char*>(&bits), dtype_size(meta.dtype));
    }
    EXPECT_EQ(sink.bytes(t), want) << meta.name;
    EXPECT_EQ(sink.crc64()[t], plain_crc64(want)) << meta.name;
    EXPECT_EQ(result.crc64[t], plain_crc64(want)) << meta.name;
  }
  EXPECT_EQ(sink.index().metadata.at("slabload_seed"), "42");
  EXPECT_EQ(sink.index().metadata.at("slabload_table"), "tiny.tsv");
  EXPECT_EQ(sink.index().metadata.at("slabload_generator"), "1");
  EXPECT_EQ(sink.index().metadata.at("kept"), "yes");
  std::uint64_t bytes[] = {result.bytes};
  control.sum(bytes);
  EXPECT_EQ(bytes[0], table.total_bytes());
}

TEST(Generator, GoesThroughOneBufferOfFourMebibytes) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  MemorySink sink(control);
  // 5 MiB on each rank, and a little, so that pieces end inside the tensor.
  std::uint64_t elements = static_cast<std::uint64_t>(control.ranks()) * (5 << 20) / 2 + 3;
  TensorIndex table = parse_table(fmt::format("big\tbf16\t{}\n", elements), "t");
  TransferResult result = generate(sink, control, table, 7);
  ASSERT_TRUE(sink.committed());
  EXPECT_LE(sink.largest_write, 4u << 20);
  EXPECT_GT(sink.largest_write, 1u << 20);
  EXPECT_GE(sink.write_calls, 2);
  EXPECT_LE(sink.write_calls, 3);  // a share that begins inside a buffer's worth ends inside one too
  EXPECT_EQ(result.crc64[0], plain_crc64(sink.bytes(0)));
  for (std::uint64_t i = 0; i < elements; i += 100003) {
    std::uint16_t value;
    std::memcpy(&value, sink.bytes(0).data() + 2 * i, 2);
    ASSERT_EQ(value, expected_bits(7, "big", DType::bf16, i)) << i;
  }
}

// The failure of one rank, whichever, is everyone's: the same message, and nothing left behind.
template <typename Arm>
void expect_all_fail(Arm&& arm, const std::string& message) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  TensorIndex table = parse_table(kTable, "t");
  for (int culprit : std::set<int>{0, control.ranks() - 1}) {
    MemorySink sink(control);
    if (control.rank() == culprit) arm(sink);
    try {
      generate(sink, control, table, 1);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      EXPECT_EQ(error.status(), Status::file);
      EXPECT_EQ(error.rank(), culprit);
      EXPECT_THAT(error.message(), HasSubstr(message));
    }
    EXPECT_TRUE(sink.abandoned());
  }
}

TEST(Generator, OneRanksFailureEndsAll) {
  expect_all_fail([](MemorySink& sink) { sink.fail_create = true; }, "create refused");
  expect_all_fail([](MemorySink& sink) { sink.fail_write = 0; }, "the disk is full");
  expect_all_fail([](MemorySink& sink) { sink.fail_commit = true; }, "commit refused");
}

}  // namespace
}  // namespace slabload
