// The device mesh: named axes, outermost first; ranks are numbered row-major (the last axis varies fastest).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace slabload {

struct MeshAxis {
  std::string name;
  std::uint64_t size;
};

class Mesh {
 public:
  // Throws Status::usage on no axis, an axis of size 0, a name given twice or a product beyond 2^31.
  explicit Mesh(std::vector<MeshAxis> axes);

  // "dp_replicate=2,dp_shard=4". Throws Status::usage naming the text.
  static Mesh parse(std::string_view text);

  std::size_t ndim() const { return axes_.size(); }
  const MeshAxis& axis(std::size_t i) const { return axes_[i]; }
  std::uint64_t ranks() const { return ranks_; }
  std::optional<std::size_t> find(std::string_view name) const;

  // The coordinate of a rank, one number per axis.
  Dims coordinate(std::uint64_t rank) const;
  std::uint64_t rank_of(const Dims& coordinate) const;
  // Ranks from one coordinate to the next along an axis.
  std::uint64_t stride(std::size_t axis) const { return strides_[axis]; }

  std::string text() const;

 private:
  std::vector<MeshAxis> axes_;
  std::vector<std::uint64_t> strides_;
  std::uint64_t ranks_ = 1;
};

}  // namespace slabload
