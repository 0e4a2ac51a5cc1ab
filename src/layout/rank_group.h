// A set of ranks that form a sub-mesh, as numbers: two ranks cost the same as a hundred thousand.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "layout/mesh.h"

namespace slabload {

// The members, ascending, are first + sum over axes of i * stride, 0 <= i < count, the last axis fastest; the
// strides fall, and an axis fits into the step of the one before it. No axis: `first` alone.
struct RankGroup {
  struct Axis {
    std::uint64_t count, stride;
    bool operator==(const Axis& other) const { return count == other.count && stride == other.stride; }
  };
  std::uint64_t first = 0;
  boost::container::small_vector<Axis, 2> axes;

  // The ranks that differ from `rank` at most along the mesh axes in `mask`.
  static RankGroup along(const Mesh& mesh, std::uint32_t mask, std::uint64_t rank);
  static RankGroup all(std::uint64_t ranks) { return {0, {{ranks, 1}}}; }

  std::uint64_t size() const;
  // Member i, which is below size().
  std::uint64_t operator[](std::uint64_t i) const;
  // The number of a member, or nothing.
  std::optional<std::uint64_t> find(std::uint64_t rank) const;
  // All of them, for those who need a list.
  std::vector<int> ranks() const;

  bool operator==(const RankGroup& other) const { return first == other.first && axes == other.axes; }
};

}  // namespace slabload
