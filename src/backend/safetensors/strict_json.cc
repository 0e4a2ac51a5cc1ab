#include "backend/safetensors/strict_json.h"

#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace slabload::safetensors {
namespace {

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxReason = 300;  // the parser quotes what it read, which may be the whole file

}  // namespace

nlohmann::json parse_object(std::string_view text, const std::string& where) {
  using nlohmann::json;
  // The parser takes a zero byte for the end of the text and would pass over the rest.
  if (text.find('\0') != std::string_view::npos)
    fail(Status::file, "{}: not JSON: it has a zero byte", where);
  std::vector<std::unordered_set<std::string>> keys;  // of each object under way
  std::vector<std::string> inside;                    // the key that each object belongs to, for messages
  std::string last_key;
  auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > static_cast<int>(kMaxDepth)) fail(Status::file, "{}: the JSON nests too deep", where);
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
      inside.push_back(last_key);
    }
    if (event == json::parse_event_t::object_end) {
      keys.pop_back();
      inside.pop_back();
    }
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        std::string owner = keys.size() > 1 ? fmt::format(", '{}'", printable(inside.back())) : "";
        fail(Status::file, "{}{}: '{}' is given twice", where, owner, printable(key));
      }
      last_key = key;
    }
    return true;
  };
  json value;
  try {
    value = json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    std::string reason = printable(error.what());
    if (reason.size() > kMaxReason) reason = reason.substr(0, kMaxReason) + "...";
    fail(Status::file, "{}: not JSON: {}", where, reason);
  }
  if (!value.is_object()) fail(Status::file, "{}: a JSON object was expected, not {}", where, kind_of(value));
  return value;
}

std::string kind_of(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return value.is_null() ? "null" : "a " + std::string(value.type_name());
}

}  // namespace slabload::safetensors
