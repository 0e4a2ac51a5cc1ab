// Ways to break a valid plan, one thing at a time.
#pragma once

#include <array>
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

// What a plan no longer keeps once it is changed.
enum class Property : std::uint8_t {
  arrivals,    // every needed element arrives exactly once, at its place, and is there when it is used
  reads,       // every byte of the file is read as often as the strategy says
  transfers,   // sends match receives in order, size and round; members of a group agree
  budget,      // no round exceeds the staging budget
  item_limit,  // no item reaches 1 GiB
  rounds,      // all ranks have the same rounds, steps and outline
  shards       // the shards are the layout's
};
inline constexpr std::array kPropertyNames{"arrivals", "reads", "transfers", "budget", "item_limit", "rounds", "shards"};

struct NamedMutation {
  const char* name;
  Property property;
  Mutation mutate;
};
inline void PrintTo(const NamedMutation& named, std::ostream* out) {
  *out << named.name;
}

// Of single items and of a plan's outline.
const std::vector<NamedMutation>& item_mutations();
// Of what the ways of bringing tensors in have of their own, on one rank or on all that take part.
const std::vector<NamedMutation>& way_mutations();
// Of broadcasts and all-gathers.
const std::vector<NamedMutation>& collective_mutations();
const std::vector<NamedMutation>& plan_mutations();  // all of them

}  // namespace slabload::testing
