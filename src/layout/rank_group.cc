#include "layout/rank_group.h"

#include "base/narrow.h"

namespace slabload {

RankGroup RankGroup::along(const Mesh& mesh, std::uint32_t mask, std::uint64_t rank) {
  RankGroup group;
  group.first = rank;
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
    const std::uint64_t count = mesh.axis(axis).size;
    if (!((mask >> axis) & 1) || count == 1) continue;
    const std::uint64_t stride = mesh.stride(axis);
    group.first -= rank / stride % count * stride;
    // Neighbouring axes without a gap are one.
    if (!group.axes.empty() && group.axes.back().stride == count * stride) {
      group.axes.back() = {group.axes.back().count * count, stride};
    } else {
      group.axes.push_back({count, stride});
    }
  }
  return group;
}

std::uint64_t RankGroup::size() const {
  std::uint64_t product = 1;
  for (const Axis& axis : axes) product *= axis.count;
  return product;
}

std::uint64_t RankGroup::operator[](std::uint64_t i) const {
  std::uint64_t rank = first;
  for (std::size_t a = axes.size(); a-- > 0;) {
    rank += i % axes[a].count * axes[a].stride;
    i /= axes[a].count;
  }
  return rank;
}

std::optional<std::uint64_t> RankGroup::find(std::uint64_t rank) const {
  if (rank < first) return std::nullopt;
  std::uint64_t rest = rank - first;
  std::uint64_t number = 0;
  for (const Axis& axis : axes) {
    const std::uint64_t i = rest / axis.stride;
    if (i >= axis.count) return std::nullopt;
    number = number * axis.count + i;
    rest -= i * axis.stride;
  }
  if (rest != 0) return std::nullopt;
  return number;
}

std::vector<int> RankGroup::ranks() const {
  const std::uint64_t count = size();
  std::vector<int> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) out.push_back(narrow<int>((*this)[i]));
  return out;
}

}  // namespace slabload
