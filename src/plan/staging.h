// How one rank's staging budget is divided between what a load needs it for.
#pragma once

#include <cstdint>
#include <optional>

#include "index/tensor_index.h"
#include "plan/planner.h"

namespace slabload {

// Bytes; slots * slot_bytes + scratch + rounds * round_bytes is at most the budget (but for a baseline, which
// has no limit to a round).
struct StagingSplit {
  // Host memory that reads land in on their way, used in turn: pinned slots in front of a device, or on the
  // host one slot for what is converted. No slots: reads land where they belong.
  std::uint64_t slots = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t scratch = 0;      // of the device: one slot's stored elements, to be converted there
  std::uint64_t rounds = 1;       // rounds that may be under way at once
  std::uint64_t round_bytes = 0;  // what a round may stage
};

// More slots than this are of no use to anyone. Slots are whole pages.
inline constexpr std::uint64_t kMostSlots = 16;
inline constexpr std::uint64_t kLeastSlot = 4096;

// True if some tensor's stored type differs from its final one.
bool converts_any(const TensorIndex& index, const std::optional<DType>& cast);

// Nothing if the budget cannot hold the slots that were asked for (or the smallest ones) and one byte a
// round.
std::optional<StagingSplit> split_staging(const PlanParams& params, bool converts);

// The same, or Status::usage with the reason.
StagingSplit checked_split(const PlanParams& params, bool converts);

}  // namespace slabload
