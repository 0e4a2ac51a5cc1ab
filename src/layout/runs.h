// Lists of indices of one dimension, as runs: how placements cut them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <set>
#include <vector>

namespace slabload {

// Consecutive indices of a dimension.
struct Run {
  std::uint64_t start, extent;
};
using Runs = boost::container::small_vector<Run, 2>;

std::uint64_t length_of(const Runs& runs);

// Part `part` of `parts`: of the whole list (factor 0), or of each of its `factor` chunks, one after the
// other.
Runs split(const Runs& runs, std::uint64_t factor, std::uint64_t parts, std::uint64_t part);

// Those runs of a list that meet some indices of the dimension. It is cut as the list is, at the cost of what it has.
struct RunsWithin {
  Runs runs;                 // clipped to the indices
  std::uint64_t length = 0;  // of the whole list
  std::uint64_t before = 0;  // indices of the list before the first of `runs`
};

// Of indices 0..length, those in begin..end.
RunsWithin runs_within(std::uint64_t length, std::uint64_t begin, std::uint64_t end);

// The same as split() of the whole list.
RunsWithin split(const RunsWithin& list, std::uint64_t factor, std::uint64_t parts, std::uint64_t part);

// The parts of which split() has runs, ascending.
std::vector<std::uint64_t> parts_that_meet(const RunsWithin& list, std::uint64_t factor, std::uint64_t parts);

// Adds the lengths of all parts that split() makes of a list of `length`.
void append_part_lengths(std::uint64_t length, std::uint64_t factor, std::uint64_t parts,
                         std::set<std::uint64_t>& out);

}  // namespace slabload
