#include "base/glob.h"

#include <fnmatch.h>

#include <algorithm>

namespace slabload {

bool glob_match(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool glob_match_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return glob_match(p, name); });
}

}  // namespace slabload
