// Random checkpoints, meshes, layouts and plan parameters, the same on every machine and rank for the same
// seed.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "index/tensor_index.h"
#include "layout/layout.h"
#include "plan/plan_tensor.h"
#include "plan/planner.h"

namespace slabload::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Uniform enough; the standard's distributions differ between libraries.
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937_64 engine_;
};

struct CaseLimits {
  std::uint64_t most_elements = 3000;  // of a tensor
  std::uint64_t ranks = 0;             // exactly so many; 0: any up to 12
  bool any_storage = true;             // else contiguous only
};

struct RandomCase {
  std::uint64_t seed;
  TensorIndex index;
  std::vector<std::uint64_t> mesh;     // sizes of the axes
  std::vector<std::string> axes;       // their names
  std::string preset;                  // or
  std::string rules;                   // the text of a rules file
  std::vector<std::vector<int>> dims;  // per tensor and axis: the dimension it shards, -1 for none
  std::vector<std::size_t> order;      // the axes as they cut; empty: outermost first
  bool flat_blocks = false;            // kFlatCode cuts all tensors with the same name up to a number, end to end
  PlanParams params;

  std::uint64_t ranks() const;
  Layout layout() const;
  std::vector<std::uint64_t> shape(std::size_t tensor) const;
  // The flat indices of the elements of a tensor that a rank holds, in the order of its memory.
  std::vector<std::uint64_t> held(std::size_t tensor, std::uint64_t rank) const;
  std::string text() const;  // for messages
};

RandomCase random_case(std::uint64_t seed, const CaseLimits& limits = {});

// Of the planned strategies only, with budgets and costs by which every way of bringing a tensor in is taken often, in
// several rounds and several transfers a round; all kinds of placements side by side.
RandomCase rich_case(std::uint64_t seed, const CaseLimits& limits = {});

// The presets fsdp2+tp, tp, fsdp1 and zero3 on the names of a decoder's tensors, and sizes of which most do not divide.
RandomCase preset_case(std::uint64_t seed);

// How the planner brings each tensor of a case in; of the planned strategies only, and where the budget holds the plan.
std::vector<Way> ways_of(const RandomCase& c);

// The number in a refusal's "the smallest budget that works is N bytes"; throws std::runtime_error if there
// is none.
std::uint64_t named_budget(const Error& error);

// Raises the staging budget of a case that does not fit to the smallest that the refusal names.
void fit_budget(RandomCase& c);

// Any of the element types.
DType random_dtype(Random& random);

}  // namespace slabload::testing
