// Writing one safetensors file from memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace slabload {

struct ShardTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape local_shape;
  const void* data = nullptr;  // dense, row-major, little-endian; may be null if the shape is empty
};

// Where the host finds `bytes` bytes (at most `piece`) that lie at `data`: they may be a device's. Valid
// until the next call. Empty: `data` is host memory.
using ShardView = std::function<const void*(const void* data, std::uint64_t bytes)>;
inline constexpr std::uint64_t kShardPiece = 8 << 20;

// Writes the tensors to a new file, the widest dtypes first so that each is aligned in a mapping of the file,
// and puts it at `path` when it is whole and on the disk. An existing `path` is refused, or with `replace`
// replaced as a whole (a symbolic link there is replaced itself). Not collective. On an error nothing is left
// behind and Status::file is thrown naming the file: a name given twice or not UTF-8, a full disk, a folder
// that cannot be written.
void write_shard_file(const std::string& path, const std::vector<ShardTensor>& tensors,
                      const std::map<std::string, std::string>& metadata, bool replace = false,
                      const ShardView& view = {}, std::uint64_t piece = kShardPiece);

}  // namespace slabload
