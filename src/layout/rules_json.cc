#include "layout/rules_json.h"

#include <set>
#include <vector>

#include "base/error.h"

namespace slabload {

nlohmann::ordered_json parse_rules(std::string_view text, const std::string& source) {
  using Json = nlohmann::ordered_json;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  auto once = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      fail(Status::usage, "{}: the key \"{}\" is given twice", source, printable(value.get<std::string>()));
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, once);
  } catch (const Json::exception& error) {
    fail(Status::usage, "{}: not JSON: {}", source, printable(error.what()));
  }
  if (!json.is_object()) fail(Status::usage, "{}: a rules file is a JSON object", source);
  return json;
}

}  // namespace slabload
