#include "exec/generator.h"

#include <cstddef>

#include "base/bytes.h"
#include "tensor/synthetic.h"

namespace slabload {
namespace {

constexpr std::uint64_t kBufferBytes = 4 * kMiB;

// The part of a path after its last slash.
std::string file_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

TransferResult generate(CheckpointSink& sink, Control& control, const TensorIndex& table, std::uint64_t seed,
                        Monitor* monitor) {
  TensorIndex index = table;
  index.metadata["slabload_seed"] = std::to_string(seed);
  index.metadata["slabload_table"] = file_name(table.path);
  index.metadata["slabload_generator"] = std::string(kGeneratorVersion);
  auto make = [&](std::size_t tensor, FlatRange range, std::byte* out) {
    const TensorMeta& t = index.tensors[tensor];
    SyntheticTensor(seed, t.name, t.dtype).fill(range.begin, range.size(), out);
  };
  return transfer({index, index, kBufferBytes, make, {}}, sink, control, monitor);
}

}  // namespace slabload
