// JSON from a file that is not trusted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace slabload::safetensors {

// Parses one JSON object with nothing around it but white space. Throws Status::file "WHERE: ..." for text
// that is not JSON, is not an object, gives a key twice in one object, or nests deeper than 16.
nlohmann::json parse_object(std::string_view text, const std::string& where);

// "a string", "a number", ...: for messages.
std::string kind_of(const nlohmann::json& value);

}  // namespace slabload::safetensors
