// The index of a safetensors checkpoint: one file, a folder of shards, or an index.json.
#pragma once

#include <string>

#include "index/tensor_index.h"

namespace slabload {

// Reads every header and checks it. `path` is a .safetensors file; an index.json, whose weight_map gives each
// tensor's file in the same folder; or a folder: its *.index.json if there is exactly one, otherwise all its
// *.safetensors. Tensor offsets are absolute. For one rank: it costs a read per shard. Throws Status::file
// naming file and tensor: a bad header, a tensor in two shards, a shard or tensor that the index names and
// that is not there, or the reverse.
TensorIndex read_safetensors_index(const std::string& path);

// True if the path is meant as a safetensors checkpoint: a folder, a name ending in .safetensors or .json, or
// a file that begins as one. Reads nine bytes at most; throws nothing for a path that is not there.
bool looks_like_safetensors(const std::string& path);

}  // namespace slabload
