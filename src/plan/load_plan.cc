#include "plan/load_plan.h"

#include <algorithm>

namespace slabload {

std::uint64_t brought_bytes(const LoadPlan& plan, const FillItem& fill) {
  const bool message = fill.kind == FillItem::Kind::send || fill.kind == FillItem::Kind::receive;
  return brought_bytes(fill, message ? 0 : plan.groups[fill.group].find(plan.rank).value());
}

std::uint64_t brought_bytes(const FillItem& fill, std::uint64_t self) {
  if (fill.kind == FillItem::Kind::send) return fill.bytes;
  if (fill.kind == FillItem::Kind::receive) return 0;
  if (fill.kind == FillItem::Kind::broadcast) return self == fill.peer ? fill.bytes : 0;
  return std::min(fill.bytes, (self + 1) * fill.part) - std::min(fill.bytes, self * fill.part);
}

std::uint64_t received_bytes(const LoadPlan& plan, const FillItem& fill) {
  return fill.kind == FillItem::Kind::send ? 0 : fill.bytes - brought_bytes(plan, fill);
}

}  // namespace slabload
