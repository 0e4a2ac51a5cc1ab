#include "index/file_samples.h"

#include <gtest/gtest.h>

#include <set>

namespace slabload {
namespace {

TensorIndex index_of(std::uint32_t files, std::uint64_t file_size, std::uint32_t tensors_per_file, std::uint64_t rows) {
  TensorIndex index;
  for (std::uint32_t f = 0; f < files; ++f) {
    index.files.push_back({"file", file_size, 0, 0});
    for (std::uint32_t t = 0; t < tensors_per_file; ++t) {
      TensorMeta tensor;
      tensor.dtype = DType::f32;
      tensor.shape = Shape({rows});
      tensor.file = f;
      tensor.offset = 5000 + std::uint64_t{t} * rows * 4;
      index.tensors.push_back(tensor);
    }
  }
  return index;
}

TEST(FileSamples, LiesInTheFilesInOrderAndStaysSmall) {
  for (std::uint32_t files : {1, 2, 7, 8, 9, 300}) {
    for (std::uint32_t tensors : {0, 1, 3, 200}) {
      TensorIndex index = index_of(files, 5000 + tensors * 4000 + 100, tensors, 1000);
      std::vector<FileSample> samples = file_samples(index);
      EXPECT_LE(samples.size(), 32u);
      EXPECT_GE(samples.size(), 2u);
      std::uint32_t file = 0;
      std::uint64_t offset = 0;
      for (const FileSample& sample : samples) {
        ASSERT_LT(sample.file, files);
        EXPECT_GE(sample.bytes, 1u);
        EXPECT_LE(sample.bytes, 4096u);
        EXPECT_LE(sample.offset + sample.bytes, index.files[sample.file].size);
        EXPECT_TRUE(sample.file != file || sample.offset >= offset);
        EXPECT_GE(sample.file, file);
        file = sample.file;
        offset = sample.offset;
      }
    }
  }
}

// Metadata lies at the two ends of a file; a checkpoint of another step differs in every tensor.
TEST(FileSamples, HasBothEndsOfAFileAndTensorsFromAllOverIt) {
  TensorIndex index = index_of(1, 5000 + 200 * 4000, 200, 1000);
  std::vector<FileSample> samples = file_samples(index);
  EXPECT_EQ(samples.front().offset, 0u);
  EXPECT_EQ(samples.back().offset + samples.back().bytes, index.files[0].size);
  std::set<std::uint64_t> quarters;
  for (const FileSample& sample : samples) quarters.insert(sample.offset * 4 / index.files[0].size);
  EXPECT_EQ(quarters.size(), 4u);
}

TEST(FileSamples, TakesEveryTensorWhereTheyAreFew) {
  TensorIndex index = index_of(1, 100000, 3, 1000);
  std::set<std::uint64_t> offsets;
  for (const FileSample& sample : file_samples(index)) offsets.insert(sample.offset);
  for (std::uint64_t offset : {0, 5000, 9000, 13000, 100000 - 4096}) EXPECT_TRUE(offsets.contains(offset)) << offset;
}

TEST(FileSamples, ManyFilesAreSpreadOver) {
  TensorIndex index = index_of(300, 100000, 2, 1000);
  std::set<std::uint32_t> thirds;
  for (const FileSample& sample : file_samples(index)) thirds.insert(sample.file / 100);
  EXPECT_EQ(thirds.size(), 3u);
}

// What has no bytes of its own in a file is not looked for there.
TEST(FileSamples, LeavesOutWhatIsNotInTheFile) {
  TensorIndex index = index_of(1, 6000, 3, 1000);
  index.tensors[0].storage = StorageKind::fill;
  index.tensors[1].storage = StorageKind::compact;
  index.tensors[2].offset = 7000;  // beyond its end: a file cut short is found by others
  EXPECT_EQ(file_samples(index).size(), 2u);
  EXPECT_TRUE(file_samples({}).empty());
  index = index_of(1, 0, 0, 0);
  EXPECT_TRUE(file_samples(index).empty());
}

}  // namespace
}  // namespace slabload
