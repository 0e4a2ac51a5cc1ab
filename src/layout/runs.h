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

// The parts that split() gives indices begin..end of the dimension to, ascending.
std::vector<std::uint64_t> parts_that_meet(const Runs& runs, std::uint64_t factor, std::uint64_t parts,
                                           std::uint64_t begin, std::uint64_t end);

// Adds the lengths of all parts that split() makes of a list of `length`.
void append_part_lengths(std::uint64_t length, std::uint64_t factor, std::uint64_t parts,
                         std::set<std::uint64_t>& out);

}  // namespace slabload
