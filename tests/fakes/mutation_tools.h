// Small pieces that the mutations of plans are made of.
#pragma once

#include <algorithm>

#include "fakes/plan_mutations.h"
#include "plan/planner.h"

namespace slabload::testing {

// A random item out of all rounds of a random rank, of those that `wanted` accepts.
template <typename Item, typename Wanted>
struct Found {
  LoadPlan* plan = nullptr;
  Round* round = nullptr;
  std::vector<Item>* list = nullptr;
  std::size_t at = 0;
  explicit operator bool() const { return list != nullptr; }
  Item& item() const { return (*list)[at]; }
};

template <typename Item, typename Wanted>
Found<Item, Wanted> pick(Subject& s, Random& random, std::vector<Item> Round::*member, Wanted wanted) {
  std::vector<Found<Item, Wanted>> all;
  for (LoadPlan& plan : s.plans) {
    for (Round& round : plan.rounds) {
      auto& list = round.*member;
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (wanted(list[i])) all.push_back({&plan, &round, &list, i});
      }
    }
  }
  return all.empty() ? Found<Item, Wanted>{} : all[random.below(all.size())];
}
template <typename Item>
auto pick(Subject& s, Random& random, std::vector<Item> Round::*member) {
  return pick(s, random, member, [](const Item&) { return true; });
}
inline auto of_kind(FillItem::Kind kind) {
  return [kind](const FillItem& fill) { return fill.kind == kind; };
}

template <typename Item>
void erase(std::vector<Item>& list, std::size_t at) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}

// Drop and duplicate for any list of items.
template <typename Item>
Mutation dropped(std::vector<Item> Round::*member) {
  return [member](Subject& s, Random& random) {
    auto found = pick(s, random, member);
    if (found) erase(*found.list, found.at);
    return static_cast<bool>(found);
  };
}
template <typename Item>
Mutation doubled(std::vector<Item> Round::*member) {
  return [member](Subject& s, Random& random) {
    auto found = pick(s, random, member);
    if (found)
      found.list->insert(found.list->begin() + static_cast<std::ptrdiff_t>(found.at), Item(found.item()));
    return static_cast<bool>(found);
  };
}

inline Mutation dropped_fill(FillItem::Kind kind) {
  return [kind](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::fills, of_kind(kind));
    if (found) erase(*found.list, found.at);
    return static_cast<bool>(found);
  };
}

inline std::uint64_t some_shift(Random& random) {
  return random.of<std::uint64_t>({1, 2, 8, 64, 4096, std::uint64_t{0} - 1, std::uint64_t{0} - 8});
}

inline void shift_box(Box& box, Random& random) {
  if (box.ndim() == 0) {
    box.start.push_back(0);
    box.extent.push_back(1);
    return;
  }
  std::size_t d = random.below(box.ndim());
  switch (random.below(3)) {
    case 0:
      box.start[d] += random.of<std::uint64_t>({1, 2, std::uint64_t{0} - 1});
      break;
    case 1:
      box.extent[d] += random.of<std::uint64_t>({1, 3});
      break;
    default:
      box.extent[d] -= 1;
      break;
  }
}

// `change(item, random)` applied to one item.
template <typename Item, typename Change>
Mutation changed(std::vector<Item> Round::*member, Change change) {
  return [member, change](Subject& s, Random& random) {
    auto found = pick(s, random, member);
    if (found) change(found.item(), random);
    return static_cast<bool>(found);
  };
}
template <typename Change>
Mutation changed_fill(std::initializer_list<FillItem::Kind> kinds, Change change) {
  std::vector<FillItem::Kind> wanted = kinds;
  return [wanted, change](Subject& s, Random& random) {
    auto found = pick(s, random, &Round::fills, [&](const FillItem& f) {
      return std::find(wanted.begin(), wanted.end(), f.kind) != wanted.end();
    });
    if (found) change(found.item(), random);
    return static_cast<bool>(found);
  };
}

inline LoadPlan& any_plan(Subject& s, Random& random) {
  return s.plans[random.below(s.plans.size())];
}

inline bool planned(const Subject& s) { return !is_baseline(s.c.params.strategy); }

inline std::uint64_t element_size(const LoadPlan& plan, std::uint32_t tensor) {
  return dtype_size(plan.dtypes[tensor]);
}

template <typename Found>
std::size_t round_of(const Found& found) {
  return static_cast<std::size_t>(found.round - found.plan->rounds.data());
}

}  // namespace slabload::testing
