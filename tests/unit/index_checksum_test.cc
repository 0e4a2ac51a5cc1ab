// The checksum of an index: its bytes are those of src/format.md, and nothing that it covers can change.
#include "index/index_checksum.h"

#include <gtest/gtest.h>

#include <functional>

namespace slabload {
namespace {

TensorIndex example_tensors() {
  TensorMeta a;
  a.name = "b";
  a.aliases = {"c", "d"};
  a.path = "/b";
  a.dtype = DType::bf16;
  a.shape = {3, 5};
  a.offset = 4096;
  a.stored_bytes = 30;
  a.crc64 = 0x1122334455667788;
  TensorMeta b;
  b.name = "a";
  b.dtype = DType::f32;
  b.shape = {8, 6};
  b.storage = StorageKind::chunked;
  b.offset = 77;  // of no meaning
  b.stored_bytes = 100;
  b.chunk = {4, 6};
  b.filters = {"shuffle", "deflate(6)"};
  TensorIndex index;
  index.path = "x.h5";
  index.tensors = {a, b};
  index.metadata = {{"format", "pt"}};
  return index;
}

// Worked out in Python from the text of src/format.md, as tests/cases/format.py does it for a whole file.
TEST(IndexChecksum, IsThatOfTheDocumentedBytes) {
  EXPECT_EQ(index_checksum(TensorIndex{}), 0xe9a13f17fb6a2363u);
  EXPECT_EQ(index_checksum(example_tensors()), 0x3e1264d94acd245fu);
}

TEST(IndexChecksum, DoesNotDependOnOrderFileOrSkippedObjects) {
  TensorIndex index = example_tensors();
  std::swap(index.tensors[0], index.tensors[1]);
  index.path = "y.h5";
  index.files = {{"y.h5", 1, 2, 3}};
  index.skipped = {{"note", "a string"}};
  index.tensors[0].path = "/other";
  index.tensors[0].offset = 78;
  EXPECT_EQ(index_checksum(index), index_checksum(example_tensors()));
}

TEST(IndexChecksum, ChangesWithEverythingItCovers) {
  const std::function<void(TensorIndex&)> changes[] = {
      [](TensorIndex& x) { x.tensors.pop_back(); },
      [](TensorIndex& x) { x.tensors[0].name = "B"; },
      [](TensorIndex& x) { x.tensors[0].aliases = {"c"}; },
      [](TensorIndex& x) { x.tensors[0].aliases = {"cd"}; },
      [](TensorIndex& x) { x.tensors[0].dtype = DType::f16; },
      [](TensorIndex& x) { x.tensors[0].big_endian = true; },
      [](TensorIndex& x) {
        x.tensors[0].shape = {5, 3};
      },
      [](TensorIndex& x) { x.tensors[0].shape = {15}; },
      [](TensorIndex& x) { x.tensors[0].storage = StorageKind::fill; },
      [](TensorIndex& x) { x.tensors[0].offset += 2; },
      [](TensorIndex& x) { x.tensors[0].crc64 = 1; },
      [](TensorIndex& x) { x.tensors[0].crc64.reset(); },
      [](TensorIndex& x) {
        x.tensors[0].fill = {1, 2};
      },
      [](TensorIndex& x) { x.tensors[1].storage = StorageKind::chunked_holes; },
      [](TensorIndex& x) { x.tensors[1].stored_bytes = 99; },
      [](TensorIndex& x) {
        x.tensors[1].chunk = {6, 4};
      },
      [](TensorIndex& x) {
        x.tensors[1].filters = {"deflate(6)", "shuffle"};
      },
      [](TensorIndex& x) { x.tensors[1].filters.clear(); },
      [](TensorIndex& x) { x.metadata["format"] = "tf"; },
      [](TensorIndex& x) { x.metadata.clear(); },
  };
  int number = 0;
  for (const auto& change : changes) {
    SCOPED_TRACE(number++);
    TensorIndex index = example_tensors();
    change(index);
    EXPECT_NE(index_checksum(index), index_checksum(example_tensors()));
  }
}

}  // namespace
}  // namespace slabload
