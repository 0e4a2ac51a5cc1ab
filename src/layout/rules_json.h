// The JSON of a rules file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace slabload {

// Parses a rules file. Throws Status::usage naming `source`: text that is no JSON, no object, or has a key twice in one
// object (which JSON readers pass over in silence).
nlohmann::ordered_json parse_rules(std::string_view text, const std::string& source);

}  // namespace slabload
