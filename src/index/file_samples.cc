#include "index/file_samples.h"

#include <algorithm>
#include <tuple>

namespace slabload {
namespace {

constexpr std::size_t kMost = 32;
constexpr std::uint64_t kBytes = 4096;

// Whether the i-th of `all` is among `wanted` that are spread evenly.
bool is_picked(std::size_t i, std::size_t all, std::size_t wanted) {
  return i * wanted / all != (i + 1) * wanted / all;
}

}  // namespace

std::vector<FileSample> file_samples(const TensorIndex& index) {
  std::vector<FileSample> out;
  auto add = [&](std::uint32_t file, std::uint64_t offset) {
    const std::uint64_t size = index.files[file].size;
    if (offset < size) out.push_back({file, offset, std::min(kBytes, size - offset)});
  };
  const std::size_t files = index.files.size();
  const std::size_t picked_files = std::min(files, kMost / 4);
  for (std::uint32_t file = 0; file < files; ++file) {
    if (!is_picked(file, files, picked_files)) continue;
    const std::uint64_t size = index.files[file].size;
    add(file, 0);
    if (size > kBytes) add(file, size - kBytes);
  }
  std::vector<const TensorMeta*> placed;
  for (const TensorMeta& tensor : index.tensors) {
    if (tensor.storage == StorageKind::contiguous && tensor.bytes() > 0 && tensor.file < files)
      placed.push_back(&tensor);
  }
  const std::size_t picked = std::min(placed.size(), kMost - 2 * picked_files);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (is_picked(i, placed.size(), picked)) add(placed[i]->file, placed[i]->offset);
  }
  std::sort(out.begin(), out.end(), [](const FileSample& a, const FileSample& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  return out;
}

}  // namespace slabload
