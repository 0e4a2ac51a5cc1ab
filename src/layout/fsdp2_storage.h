// FSDP2 over TP cuts a dimension by TP first and each part by DP. DTensor's placements for it, SS(d,tp) S(d)
// over (dp, tp), give the same rows for even lengths, and others for some uneven ones.
#pragma once

#include <cstdint>

namespace slabload {

// True if both give the rank at every (i, j) of a mesh (dp, tp) the same of `length` rows. Costs at most
// min(length, dp * tp), and next to nothing if dp * tp divides the length.
bool formula_is_storage(std::uint64_t length, std::uint64_t dp, std::uint64_t tp);

}  // namespace slabload
