// What a mistyped name may have meant.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace slabload {

// Letters to change, to add or to leave out to make one of the other; anything above `most` counts as most
// + 1.
std::size_t edit_distance(const std::string& a, const std::string& b, std::size_t most);

// Of `names`, at most `count` that are near `asked`, printable, the nearest first: those that differ by few
// letters, or that hold it, or that it holds as a glob.
std::vector<std::string> nearest_names(const std::string& asked, const std::vector<std::string>& names,
                                       std::size_t count);

}  // namespace slabload
