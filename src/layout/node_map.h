// Which ranks share a node: its network link, its page cache.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace slabload {

class NodeMap {
 public:
  // Nodes of `ranks_per_node` neighbouring ranks each; 1 if nothing is known.
  NodeMap() = default;
  explicit NodeMap(std::uint64_t ranks_per_node) : per_node_(ranks_per_node) {}
  // The node of every rank, numbered from 0.
  explicit NodeMap(std::vector<std::uint32_t> node_of) : node_of_(std::move(node_of)) {}

  // True if the ranks of a node are neighbours.
  bool neighbours() const { return node_of_.empty(); }
  std::uint64_t node(std::uint64_t rank) const {
    return rank < node_of_.size() ? node_of_[rank] : rank / per_node_;
  }

 private:
  std::uint64_t per_node_ = 1;
  std::vector<std::uint32_t> node_of_;
};

}  // namespace slabload
