// What the kernels do, thread by thread on the CPU: with any number of threads, at any address, all of the
// work and no more.
#include "backend/cuda/kernel_body.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fakes/plain_box.h"
#include "tensor/box_checksum.h"
#include "tensor/cast.h"
#include "tensor/relayout.h"

namespace slabload::cuda {
namespace {

using slabload::testing::copy_plainly;
using slabload::testing::plain_checksum;
using slabload::testing::random_bytes;

constexpr std::uint64_t kThreads[] = {1, 32, 96, 256, 4096};

// Bytes `offset` behind an aligned address.
class Aligned {
 public:
  Aligned(const std::string& bytes, std::uint64_t offset)
      : words_((offset + bytes.size()) / 8 + 1), size_(bytes.size()) {
    data_ = reinterpret_cast<unsigned char*>(words_.data()) + offset;
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  unsigned char* data() { return data_; }
  std::string text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t size_;
  unsigned char* data_;
};

TEST(KernelBody, CastsAllElementsOnce) {
  for (DType from : {DType::f64, DType::f32, DType::bf16, DType::f8_e4m3}) {
    for (std::uint64_t count : {0u, 1u, 127u, 1025u, 5000u}) {
      std::uint64_t size = dtype_size(from);
      std::string bytes = random_bytes(count * size, count);
      for (DType to : {DType::f32, DType::f16, DType::bf16}) {
        if (from == to) continue;
        std::string want(count * dtype_size(to), '\0');
        cast_elements(from, to, bytes.data(), count, want.data());
        for (std::uint64_t threads : kThreads) {
          std::uint64_t offset = threads % 3;
          Aligned in(bytes, offset), out(std::string(want.size() + 8, '\x5a'), 2 * offset);
          CastParams p{cast_rule(from, to),    in.data(), out.data(), count, common_unit(offset),
                       common_unit(2 * offset)};
          for (std::uint64_t t = 0; t < threads; ++t) cast_thread(p, t, threads);
          ASSERT_EQ(out.text(), want + std::string(8, '\x5a'));
        }
      }
    }
  }
}

TEST(KernelBody, RelayoutMovesAllRuns) {
  Box box{{1, 0, 2}, {3, 5, 6}}, from_box{{0, 0, 0}, {5, 7, 9}}, to_box{{1, 0, 1}, {3, 6, 8}};
  for (std::uint32_t size : {1u, 2u, 4u, 8u}) {
    std::string from = random_bytes(from_box.elements() * size, size), to(to_box.elements() * size, '\x5a');
    std::string want = to;
    copy_plainly(size, box, from, from_box, want, to_box);
    for (std::uint32_t unit = size; unit > 0; unit /= 2) {
      for (std::uint64_t threads : kThreads) {
        Aligned source(from, unit), target(to, 3 * unit);
        RelayoutParams p{make_relayout(size, box, from_box, to_box), source.data(), target.data(), unit};
        for (std::uint64_t t = 0; t < threads; ++t) relayout_thread(p, t, threads);
        ASSERT_EQ(target.text(), want);
      }
    }
  }
}

TEST(KernelBody, ChecksumsAddUpWithAnyNumberOfThreads) {
  Shape shape{9, 400, 37};
  Box box{{1, 10, 5}, {6, 300, 31}};
  for (std::uint32_t size : {1u, 2u}) {
    std::string bytes = random_bytes(box.elements() * size, size);
    std::uint64_t want = plain_checksum(shape, box, size, bytes);
    ChecksumParams p{};
    p.box = make_box_crc(shape, box, size, 4096);
    std::vector<std::uint64_t> table(kCrc64Entries);
    for (std::uint32_t i = 0; i < table.size(); ++i) table[i] = crc64_entry(p.box.step, i);
    for (std::uint64_t threads : kThreads) {
      if (threads % p.box.lanes != 0) continue;
      Aligned data(bytes, 8 - bytes.size() % 8);  // its end is aligned
      p.data = data.data();
      p.unit = common_unit(p.box.group_bytes | p.box.row_bytes);
      std::uint64_t sum = 0;
      for (std::uint64_t t = 0; t < threads; ++t) sum ^= checksum_thread(p, table.data(), 1, t, threads);
      ASSERT_EQ(sum, want) << threads;
    }
  }
}

}  // namespace
}  // namespace slabload::cuda
