#include "plan/shard_table.h"

#include <map>
#include <tuple>

#include "base/narrow.h"

namespace slabload {

ShardTable::ShardTable(const TensorIndex& index, const Mesh& mesh, const std::vector<TensorLayout>& resolved)
    : index_(index), mesh_(mesh), resolved_(resolved) {
  using Key = std::tuple<Dims, std::vector<int>, std::vector<std::uint64_t>, std::vector<std::uint8_t>,
                         std::uint64_t, std::uint64_t>;
  std::map<Key, std::uint32_t> known;
  for (std::size_t t = 0; t < resolved.size(); ++t) {
    const TensorLayout& layout = resolved[t];
    Key key{index.tensors[t].shape.lengths(), layout.dims, layout.factors, layout.order, layout.flat_before,
            layout.flat_total};
    auto [entry, fresh] = known.try_emplace(std::move(key), narrow<std::uint32_t>(first_of_.size()));
    if (fresh) first_of_.push_back(narrow<std::uint32_t>(t));
    kind_of_.push_back(entry->second);
  }
}

std::vector<Shard> ShardTable::shards(std::uint64_t rank) const {
  const Dims coordinate = mesh_.coordinate(rank);
  std::vector<Shard> out;
  out.reserve(first_of_.size());
  for (std::uint32_t t : first_of_)
    out.push_back(local_shard(index_.tensors[t].shape, mesh_, resolved_[t], coordinate));
  return out;
}

}  // namespace slabload
