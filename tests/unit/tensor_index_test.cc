// The index as it travels between ranks.
#include "index/tensor_index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;

TensorIndex sample_index() {
  TensorIndex index;
  index.path = "dir/model";
  index.format = "hdf5";
  index.files = {{"dir/a.h5", 1000, -5, 77}, {"dir/b.h5", 1ull << 40, 1700000000123456789, 78}};
  TensorMeta a;
  a.name = "a/weight";
  a.aliases = {"alias", "z/other"};
  a.path = "/a/weight";
  a.dtype = DType::bf16;
  a.shape = {3, 5};
  a.big_endian = true;
  a.storage = StorageKind::chunked;
  a.file = 1;
  a.offset = 0x1122334455667788;
  a.stored_bytes = 17;
  a.chunk = {2, 5};
  a.filters = {"shuffle", "deflate(6)"};
  a.crc64 = 0xfedcba9876543210;
  TensorMeta b;
  b.name = std::string("b\0\xff", 3);
  b.dtype = DType::f64;
  b.shape = Shape{};
  b.storage = StorageKind::fill;
  b.fill = {1, 2, 3, 4, 5, 6, 7, 8};
  TensorMeta c;
  c.name = "c";
  c.dtype = DType::boolean;
  c.shape = {0, 4, 2, 1, 1, 9};
  c.crc64 = 0;  // present, and zero
  index.tensors = {a, b, c};
  index.skipped = {{"notes", "a string"}, {"link", "dangling"}};
  index.metadata = {{"format", "pt"}, {"", "empty key"}};
  index.metadata_bytes = 4096;
  index.proof = IndexProof::wrong;
  return index;
}

TEST(TensorIndex, SurvivesTheJourney) {
  TensorIndex index = index_from_bytes(to_bytes(sample_index()));
  EXPECT_EQ(index.path, "dir/model");
  EXPECT_EQ(index.format, "hdf5");
  ASSERT_EQ(index.files.size(), 2u);
  EXPECT_EQ(index.files[0].path, "dir/a.h5");
  EXPECT_EQ(index.files[0].mtime_ns, -5);
  EXPECT_EQ(index.files[1].size, 1ull << 40);
  EXPECT_EQ(index.files[1].mtime_ns, 1700000000123456789);
  EXPECT_EQ(index.files[1].inode, 78u);
  ASSERT_EQ(index.tensors.size(), 3u);
  const TensorMeta& a = index.tensors[0];
  EXPECT_EQ(a.name, "a/weight");
  EXPECT_EQ(a.aliases, (std::vector<std::string>{"alias", "z/other"}));
  EXPECT_EQ(a.path, "/a/weight");
  EXPECT_EQ(a.dtype, DType::bf16);
  EXPECT_EQ(a.shape, (Shape{3, 5}));
  EXPECT_TRUE(a.big_endian);
  EXPECT_EQ(a.storage, StorageKind::chunked);
  EXPECT_EQ(a.file, 1u);
  EXPECT_EQ(a.offset, 0x1122334455667788u);
  EXPECT_EQ(a.stored_bytes, 17u);
  EXPECT_EQ(a.chunk, (Dims{2, 5}));
  EXPECT_EQ(a.filters, (std::vector<std::string>{"shuffle", "deflate(6)"}));
  EXPECT_EQ(a.crc64, 0xfedcba9876543210u);
  EXPECT_EQ(a.bytes(), 30u);
  EXPECT_TRUE(a.filtered());
  const TensorMeta& b = index.tensors[1];
  EXPECT_EQ(b.name, std::string("b\0\xff", 3));
  EXPECT_EQ(b.shape.ndim(), 0u);
  EXPECT_EQ(b.bytes(), 8u);
  EXPECT_EQ(b.fill, (std::vector<unsigned char>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_FALSE(b.crc64.has_value());
  const TensorMeta& c = index.tensors[2];
  EXPECT_EQ(c.shape, (Shape{0, 4, 2, 1, 1, 9}));
  EXPECT_EQ(c.crc64, std::optional<std::uint64_t>(0));
  ASSERT_EQ(index.skipped.size(), 2u);
  EXPECT_EQ(index.skipped[1].name, "link");
  EXPECT_EQ(index.skipped[1].reason, "dangling");
  EXPECT_EQ(index.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"", "empty key"}}));
  EXPECT_EQ(index.metadata_bytes, 4096u);
  EXPECT_EQ(index.proof, IndexProof::wrong);
  EXPECT_EQ(to_bytes(index), to_bytes(sample_index()));
}

TEST(TensorIndex, EveryTruncationIsNoticed) {
  std::string bytes = to_bytes(sample_index());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly that size: a read past the end shows under the address sanitizer.
    std::string cut = bytes.substr(0, size);
    ASSERT_EQ(thrown_error([&] { index_from_bytes(cut); }).status(), Status::internal) << size;
  }
  EXPECT_EQ(thrown_error([&] { index_from_bytes(bytes + '\0'); }).status(), Status::internal);
}

// Damage is refused or gives an index that can be used; it never crashes and never asks for absurd memory.
TEST(TensorIndex, DamageNeverCrashes) {
  const std::string bytes = to_bytes(sample_index());
  std::mt19937_64 random(13);
  int refused = 0, taken = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string damaged = bytes;
    for (std::size_t flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << (random() % 8));
    }
    try {
      TensorIndex index = index_from_bytes(damaged);
      for (const TensorMeta& t : index.tensors) {
        ASSERT_LE(t.shape.ndim(), kMaxNdim);
        ASSERT_LT(t.file, index.files.size());
        ASSERT_TRUE(t.shape.checked_elements().has_value());
        ASSERT_TRUE(t.fill.empty() || t.fill.size() == dtype_size(t.dtype));
      }
      ++taken;
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), Status::internal);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 1000);
}

TEST(TensorIndex, RefusesFileNumbersBeyondTheirType) {
  std::string bytes = to_bytes(sample_index());
  // The file number stands before the offset, whose pattern is found easily; its upper half is zero.
  std::uint64_t offset = 0x1122334455667788;
  std::string pattern(reinterpret_cast<const char*>(&offset), 8);
  std::size_t at = bytes.find(pattern);
  ASSERT_NE(at, std::string::npos);
  bytes[at - 4] = 1;
  EXPECT_EQ(thrown_error([&] { index_from_bytes(bytes); }).status(), Status::internal);
}

TEST(TensorIndex, FindsByNameAndAlias) {
  TensorIndex index = sample_index();
  EXPECT_EQ(index.find("a/weight"), &index.tensors[0]);
  EXPECT_EQ(index.find("z/other"), &index.tensors[0]);
  EXPECT_EQ(index.find("c"), &index.tensors[2]);
  EXPECT_EQ(index.find("/a/weight"), nullptr);
  EXPECT_EQ(index.total_bytes(), 30u + 8u + 0u);
}

TEST(TensorIndex, SortsForReading) {
  TensorIndex index;
  auto add = [&](const char* name, std::uint32_t file, std::uint64_t offset) {
    TensorMeta t;
    t.name = name;
    t.file = file;
    t.offset = offset;
    index.tensors.push_back(t);
  };
  add("d", 1, 0);
  add("b", 0, 100);
  add("c", 0, 5);
  add("a", 0, 100);
  sort_for_reading(index);
  std::string order;
  for (const TensorMeta& t : index.tensors) order += t.name;
  EXPECT_EQ(order, "cabd");
}

}  // namespace
}  // namespace slabload
