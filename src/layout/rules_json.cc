#include "layout/rules_json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"

namespace slabload {
namespace {

// Of the text, the piece that holds byte `at`: a string, a word or a number, or one sign.
std::string_view token_at(std::string_view text, std::size_t at) {
  constexpr std::string_view kSpace = " \t\r\n", kSigns = "{}[]:,";
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    if (text[begin] == '"') {
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (kSpace.find(text[begin]) == kSpace.npos && kSigns.find(text[begin]) == kSigns.npos) {
      while (end < text.size() && text[end] != '"' && kSpace.find(text[end]) == kSpace.npos &&
             kSigns.find(text[end]) == kSigns.npos)
        ++end;
    }
    if (at < end) return text.substr(begin, end - begin);
    begin = end;
  }
  return {};
}

std::string place_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::string_view in_line =
      before.substr(before.rfind('\n') + 1);  // all of it if there is no line end
  // Characters, not bytes: what follows the first byte of one is 10xxxxxx.
  const auto column =
      std::count_if(in_line.begin(), in_line.end(), [](char c) { return (c & 0xc0) != 0x80; }) + 1;
  return fmt::format("line {}, column {}", line, column);
}

// The parser's words name its own parts; a user wants to know what to write.
std::string plain_words(std::string_view text, std::size_t byte, std::string_view words) {
  auto says = [&](std::string_view part) { return words.find(part) != words.npos; };
  if (text.find_first_not_of(" \t\r\n") == text.npos) return "the file is empty";
  const std::size_t at = std::min(byte == 0 ? 0 : byte - 1, text.size());
  auto here = [&](std::size_t where, const std::string& what) { return place_of(text, where) + ": " + what; };
  if (const std::size_t zero = text.find('\0'); zero != text.npos) return here(zero, "a zero byte");
  if (says("control character")) return here(at, "a string holds a line break or another control character");
  if (says("UTF-8")) return here(at, "this is not UTF-8");
  if (says("unexpected end of input"))
    return here(text.find_last_not_of(" \t\r\n") + 1, "the file ends here, and a '{' or '[' is not closed");
  const bool open_string = says("missing closing quote"),
             no_word = says("invalid literal") || says("invalid number");
  if (!open_string && says("invalid string"))
    return here(at, "in a string, one of \" \\ / b f n r t u follows a \\; a \\ itself is written \\\\");
  std::string_view token = token_at(text, open_string ? text.size() - 1 : at);
  // Of a word cut short the parser sees what follows it.
  if (no_word && at > 0 &&
      (token.empty() || std::string_view("{}[]:,").find(token.front()) != std::string_view::npos))
    token = token_at(text, text.find_last_not_of(" \t\r\n", at - 1));
  if (token.empty()) return here(at, "this is not expected here");
  const auto begin = static_cast<std::size_t>(token.data() - text.data());
  if (open_string) return here(begin, "the string that begins here has no closing quote");
  if (token.starts_with("//") || token.starts_with("/*") || token.starts_with('#'))
    return here(begin, "JSON has no comments");
  constexpr std::size_t kShown = 40;
  const std::string found =
      fmt::format("'{}{}'", printable(token.substr(0, kShown)), token.size() > kShown ? "..." : "");
  if (says("parsing object key") && token != "}")
    return here(begin, found + " stands where a key in double quotes is expected");
  if (no_word) {
    return here(
        begin,
        fmt::format("{} is neither a number nor true, false or null; text stands in double quotes", found));
  }
  const char* last = "a ',' stands before this, and nothing follows the last entry";
  const std::size_t before = begin == 0 ? text.npos : text.find_last_not_of(" \t\r\n", begin - 1);
  const bool after_comma = before != text.npos && text[before] == ',';
  if (after_comma && (token == "}" || token == "]")) return here(begin, found + ": " + last);
  if (says("parsing object separator")) return here(begin, "a ':' is missing before " + found);
  if (says("expected end of input")) return here(begin, found + " follows the end of the JSON");
  if (says("parsing value")) return here(begin, found + " stands where a value is expected");
  if (says("parsing object")) return here(begin, "a ',' or '}' is missing before " + found);
  if (says("parsing array")) return here(begin, "a ',' or ']' is missing before " + found);
  return here(begin, found + " is not expected here");
}

}  // namespace

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
  } catch (const Json::parse_error& error) {
    fail(Status::usage, "{}: not JSON: {}", source, plain_words(text, error.byte, error.what()));
  } catch (const Json::exception&) {
    fail(Status::usage, "{}: not JSON: a number in it is too large", source);
  }
  if (!json.is_object()) fail(Status::usage, "{}: a rules file is a JSON object, {{ ... }}", source);
  return json;
}

}  // namespace slabload
