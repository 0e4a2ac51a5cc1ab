// What a plan does with one tensor.
#pragma once

#include <string>

#include "layout/layout.h"
#include "plan/planner.h"

namespace slabload {

// The rule that applies, how the tensor is brought in and what the other ways would cost, and for every rank what it
// holds, reads and receives; neighbouring ranks that do the same share a line. `number` is the tensor's in the index.
// Plans for every rank: costs as much as simulate() without validation.
std::string explain_text(const TensorIndex& index, std::uint32_t number, const Layout& layout,
                         const PlanParams& params);

}  // namespace slabload
