// The shards of one rank, tensor by tensor. Models repeat their shapes: what tensors of one shape and layout have in
// common is worked out once.
#pragma once

#include <cstdint>
#include <vector>

#include "index/tensor_index.h"
#include "layout/shard.h"

namespace slabload {

class ShardTable {
 public:
  // `resolved` is the layout of each tensor of the index. Keeps references to both and to the mesh.
  ShardTable(const TensorIndex& index, const Mesh& mesh, const std::vector<TensorLayout>& resolved);

  // Kinds of tensors; tensors of one kind have equal shards on every rank.
  std::size_t kinds() const { return first_of_.size(); }
  std::size_t kind(std::size_t tensor) const { return kind_of_[tensor]; }

  // The shard of each kind on a rank.
  std::vector<Shard> shards(std::uint64_t rank) const;

 private:
  const TensorIndex& index_;
  const Mesh& mesh_;
  const std::vector<TensorLayout>& resolved_;
  std::vector<std::uint32_t> kind_of_;   // per tensor
  std::vector<std::uint32_t> first_of_;  // per kind: a tensor of it
};

}  // namespace slabload
