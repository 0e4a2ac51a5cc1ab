// JSON for reports: valid UTF-8 whatever bytes names hold.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace slabload {

using Json = nlohmann::ordered_json;

// The text itself if it is UTF-8, else with its broken bytes as \xNN (see printable).
std::string json_text(std::string_view text);

// Indented, with a newline at the end.
std::string dump(const Json& json);

// 64 bits as 16 hexadecimal digits.
std::string hex64(std::uint64_t value);

}  // namespace slabload
