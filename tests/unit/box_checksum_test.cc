// Checksums of boxes: the host's, and the kernel's shares, against the definition bit by bit.
#include "tensor/box_checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/crc64.h"
#include "fakes/plain_box.h"
#include "fakes/random_case.h"

namespace slabload {
namespace {

using slabload::testing::BoxCopy;
using slabload::testing::plain_checksum;
using slabload::testing::plain_linear_crc;
using slabload::testing::Random;
using slabload::testing::random_box_copy;
using slabload::testing::random_bytes;

// What the kernel does: the shares of all threads of all lines. The data lies `offset` behind an aligned
// address.
std::uint64_t by_shares(const Shape& shape, const Box& box, std::uint32_t size, const std::string& bytes,
                        std::uint64_t threads, std::uint64_t offset = 0) {
  BoxCrc cut = make_box_crc(shape, box, size, threads);
  std::vector<std::uint64_t> memory((offset + bytes.size()) / 8 + 1);
  auto* data = reinterpret_cast<unsigned char*>(memory.data()) + offset;
  std::copy(bytes.begin(), bytes.end(), data);
  std::uint32_t unit = common_unit((offset + cut.bytes) | cut.group_bytes | cut.row_bytes);
  std::vector<std::uint64_t> table(kCrc64Entries);
  for (std::uint32_t i = 0; i < table.size(); ++i) table[i] = crc64_entry(cut.step, i);
  std::uint64_t sum = 0;
  for (std::uint64_t line = 0; line < cut.lines; ++line) {
    for (std::uint32_t lane = 0; lane < cut.lanes; ++lane)
      sum ^= box_crc_share(cut, data, unit, table.data(), 1, line, lane);
  }
  return sum;
}

TEST(BoxChecksum, OfEveryLengthAtEveryAlignment) {
  std::string bytes = random_bytes(2000, 1);
  for (std::uint64_t length = 0; length <= bytes.size(); ++length) {
    std::string part = bytes.substr(0, length);
    Shape shape{length};
    std::uint64_t want = crc64_part(part.data(), length);  // ISA-L
    if (length % 100 < 3) {
      ASSERT_EQ(want, plain_linear_crc(part));
    }
    ASSERT_EQ(box_checksum(shape, whole_box(shape), 1, part.data()), want);
    for (std::uint64_t offset = 0; offset < (length < 300 ? 8u : 1u); ++offset)
      ASSERT_EQ(by_shares(shape, whole_box(shape), 1, part, 64, offset), want) << length << " at " << offset;
  }
}

TEST(BoxChecksum, OfRunsOfEveryLength) {
  Random random(2);
  for (std::uint64_t width = 1; width <= 600; width += width < 40 ? 1 : 37) {
    for (std::uint64_t rows : {1u, 2u, 3u, 70u}) {
      Shape shape{rows + 1, width + 3};
      Box box{{1, 2}, {rows, width}};
      std::string bytes = random_bytes(rows * width, width);
      std::uint64_t want = plain_checksum(shape, box, 1, bytes);
      ASSERT_EQ(box_checksum(shape, box, 1, bytes.data()), want);
      for (std::uint64_t threads : {1u, 100000u})
        ASSERT_EQ(by_shares(shape, box, 1, bytes, threads, random.below(8)), want) << box.text();
    }
  }
}

TEST(BoxChecksum, OfRandomBoxes) {
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    BoxCopy c = random_box_copy(random);
    Shape shape;
    for (std::size_t d = 0; d < c.box.ndim(); ++d)
      shape.lengths().push_back(c.box.start[d] + c.box.extent[d] + random.below(3));
    std::uint32_t size = random.of<std::uint32_t>({1, 2, 4, 8});
    std::string bytes = random_bytes(c.box.elements() * size, static_cast<std::uint64_t>(i));
    std::uint64_t want = plain_checksum(shape, c.box, size, bytes);
    ASSERT_EQ(box_checksum(shape, c.box, size, bytes.data()), want) << c.box.text() << " of " << shape.text();
    ASSERT_EQ(
        by_shares(shape, c.box, size, bytes, random.of<std::uint64_t>({1, 50, 100000}), random.below(9)),
        want)
        << c.box.text() << " of " << shape.text() << " x " << size;
  }
}

TEST(BoxChecksum, LongLinesAreCutIntoBlocks) {
  // 100,000 bytes are 391 rows of 256 bytes: one line of all, or blocks of 64 rows.
  Shape shape{100000};
  std::string bytes = random_bytes(100000, 4);
  EXPECT_EQ(make_box_crc(shape, whole_box(shape), 1, 1).lines, 1u);
  EXPECT_EQ(make_box_crc(shape, whole_box(shape), 1, 1 << 20).lines, 7u);
  std::uint64_t want = plain_linear_crc(bytes);
  for (std::uint64_t threads : {1u, 32u, 128u, 1u << 20})
    EXPECT_EQ(by_shares(shape, whole_box(shape), 1, bytes, threads), want);
  // Columns: lines go down the rows, 8 bytes wide for each thread.
  BoxCrc columns = make_box_crc(Shape{1000, 100}, {{0, 10}, {1000, 50}}, 2, 1 << 20);
  EXPECT_EQ(columns.lanes, 16u);
  EXPECT_EQ(columns.rows, 1000u);
  EXPECT_EQ(columns.lines, 16u);
}

// Bytes may follow the box by the thousand terabytes.
TEST(BoxChecksum, FarFromTheTensorsEnd) {
  Shape shape{std::uint64_t{1} << 40, 4096};
  Box box{{12345, 100}, {3, 500}};
  std::string bytes = random_bytes(3 * 500, 5);
  std::uint64_t want = 0;
  for (std::uint64_t row = 0; row < 3; ++row) {
    std::uint64_t end = (12345 + row) * 4096 + 600;
    want ^= crc64_shift(plain_linear_crc(bytes.substr(row * 500, 500)), (std::uint64_t{1} << 52) - end);
  }
  EXPECT_EQ(box_checksum(shape, box, 1, bytes.data()), want);
  EXPECT_EQ(by_shares(shape, box, 1, bytes, 1000), want);
}

}  // namespace
}  // namespace slabload
