#include "plan/staging.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload {
namespace {

// One slot is read into, one is on its way to the device, and one or two more take up what differs from piece
// to piece.
constexpr std::uint64_t kPinnedSlots = 4;
constexpr std::uint64_t kLargestSlot = 16 << 20;
// One round is read while the transfers of another are under way.
constexpr std::uint64_t kRounds = 2;

// What is converted on the host passes through one slot of this size.
std::uint64_t conversion_slot(std::uint64_t budget) {
  constexpr std::uint64_t kLeast = 64 << 10;
  constexpr std::uint64_t kMost = 8 << 20;
  return std::clamp(budget / 8, kLeast, kMost);
}

// A quarter of the budget goes into pinned slots, whole pages each.
std::uint64_t pinned_slot(std::uint64_t budget) {
  return std::clamp(budget / (4 * kPinnedSlots) / kLeastSlot * kLeastSlot, kLeastSlot, kLargestSlot);
}

}  // namespace

bool converts_any(const TensorIndex& index, const std::optional<DType>& cast) {
  return std::any_of(index.tensors.begin(), index.tensors.end(),
                     [&](const TensorMeta& tensor) { return is_converted(tensor, cast); });
}

std::optional<StagingSplit> split_staging(const PlanParams& params, bool converts) {
  StagingSplit split;
  if (params.pinned) {
    split.slots = params.slots != 0 ? params.slots : kPinnedSlots;
    split.slot_bytes = params.slot_bytes != 0 ? params.slot_bytes : pinned_slot(params.staging);
    split.scratch = converts ? split.slot_bytes : 0;
    split.rounds = kRounds;
  } else {
    split.slots = converts ? 1 : 0;
    split.slot_bytes = converts ? conversion_slot(params.staging) : 0;
    split.rounds = params.slots != 0 ? params.slots : kRounds;
  }
  std::uint64_t taken = 0;
  if (!checked_multiply(split.slots, split.slot_bytes, &taken) ||
      !checked_add(taken, split.scratch, &taken)) {
    return std::nullopt;
  }
  if (is_baseline(params.strategy)) return split;  // takes what it takes
  if (taken > params.staging) return std::nullopt;
  split.round_bytes = (params.staging - taken) / split.rounds;
  if (!params.pinned && params.slot_bytes != 0) {
    if (params.slot_bytes > split.round_bytes) return std::nullopt;
    split.round_bytes = params.slot_bytes;
  }
  return split;
}

StagingSplit checked_split(const PlanParams& params, bool converts) {
  if (std::optional<StagingSplit> split = split_staging(params, converts)) return *split;
  fail(Status::usage, "--staging {} can't hold the slots; lower --slots or --slot-bytes, or raise --staging",
       format_binary(params.staging));
}

}  // namespace slabload
