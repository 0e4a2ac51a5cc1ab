#include "app/all_ranks.h"

#include <cstring>
#include <type_traits>

#include "base/crc64.h"

namespace slabload {

std::string inputs_text(const TensorIndex& index, const Layout& layout, const PlanParams& params) {
  std::string inputs = to_bytes(index) + layout.name() + layout.mesh().text();
  for (const LayoutRule& rule : layout.rules()) {
    inputs += rule.match + '\n';
    for (const Placement& placement : rule.placements) inputs += placement.text();
  }
  return inputs + fmt::format("{} {} {} {} {} {} {} {} {} {} {}", params.strategy, params.staging, params.pinned,
                              params.slots, params.slot_bytes, params.min_read, params.round_bytes, params.read_limit,
                              params.cast ? dtype_name(*params.cast) : "", params.align, params.costs.text());
}

void agree_on_inputs(Control& control, const std::string& inputs) {
  std::uint64_t low = crc64_part(inputs.data(), inputs.size());
  std::uint64_t high = low;
  control.min({&low, 1});
  control.max({&high, 1});
  if (low == high) return;
  fail_agreed(Status::peer,
              "the ranks do not agree on what to do; do all run the same version with the same tensors and options?");
}

JobRanks gather_ranks(Session& session, const RankStats& mine) {
  static_assert(std::is_trivially_copyable_v<RankStats>);
  Control& control = session.control();
  JobRanks out;
  out.hosts = session.leads_node() ? 1 : 0;
  out.per_node = static_cast<std::uint64_t>(session.ranks_on_node());
  control.sum({&out.hosts, 1});
  control.max({&out.per_node, 1});
  for (const std::string& bytes : control.gather({reinterpret_cast<const char*>(&mine), sizeof mine})) {
    RankStats one;
    std::memcpy(&one, bytes.data(), sizeof one);
    out.stats.push_back(one);
  }
  return out;
}

}  // namespace slabload
