// Ways to break a valid plan, one thing at a time.
#pragma once

#include <functional>
#include <ostream>
#include <vector>

#include "fakes/random_case.h"
#include "plan/load_plan.h"

namespace slabload::testing {

struct Subject {
  RandomCase c;
  std::vector<LoadPlan> plans;  // of all ranks
};

// Changes one thing; false if these plans have nothing of the kind.
using Mutation = std::function<bool(Subject&, Random&)>;

struct NamedMutation {
  const char* name;
  Mutation mutate;
};
inline void PrintTo(const NamedMutation& named, std::ostream* out) {
  *out << named.name;
}

const std::vector<NamedMutation>& plan_mutations();

}  // namespace slabload::testing
