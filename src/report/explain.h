// What a plan does with one tensor.
#pragma once

#include <functional>
#include <string>

#include "layout/layout.h"
#include "plan/planner.h"

namespace slabload {

struct Explain {
  const TensorIndex& index;
  std::uint32_t number;  // the tensor's in the index
  std::string asked;     // the name that was asked for: the tensor's, or an alias of it
  const Layout& layout;
  const PlanParams& params;
  std::function<void(std::uint64_t)> planned{};  // if given, called with the number of ranks that are done
};

// The rule that applies, how the tensor is brought in and what the other ways would cost, and for every rank
// what it holds, reads and receives, and whom it talks to; neighbouring ranks that do the same share a line.
// Plans for every rank: costs as much as simulate() without validation.
std::string explain_text(const Explain& what);

// The same as JSON. Boxes and shapes are in elements.
std::string explain_json(const Explain& what);

}  // namespace slabload
