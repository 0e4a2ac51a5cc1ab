#include "plan/load_plan.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {

std::uint64_t brought_bytes(const LoadPlan& plan, const FillItem& fill) {
  if (fill.kind == FillItem::Kind::send) return fill.bytes;
  if (fill.kind == FillItem::Kind::receive) return 0;
  const std::vector<int>& group = plan.groups[fill.group];
  auto self = static_cast<std::uint64_t>(
      std::lower_bound(group.begin(), group.end(), narrow<int>(plan.rank)) - group.begin());
  if (fill.kind == FillItem::Kind::broadcast) return self == fill.peer ? fill.bytes : 0;
  return std::min(fill.bytes, (self + 1) * fill.part) - std::min(fill.bytes, self * fill.part);
}

std::uint64_t received_bytes(const LoadPlan& plan, const FillItem& fill) {
  return fill.kind == FillItem::Kind::send ? 0 : fill.bytes - brought_bytes(plan, fill);
}

}  // namespace slabload
