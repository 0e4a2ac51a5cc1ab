// Shell patterns on tensor names: * ? [abc] as fnmatch(3); * also matches '.' and '/'.
#pragma once

#include <string>
#include <vector>

namespace slabload {

bool glob_match(const std::string& pattern, const std::string& name);
bool glob_match_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace slabload
