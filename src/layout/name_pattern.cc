#include "layout/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"

namespace slabload {
namespace {

// The length of the set that `text` starts with, "[...]", or 0 if it is not closed.
std::size_t set_length(std::string_view text) {
  std::size_t i = 1;
  if (i < text.size() && (text[i] == '!' || text[i] == '^')) ++i;
  for (bool first = true; i < text.size(); ++i, first = false) {
    if (text[i] == ']' && !first) return i + 1;
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '[' && i + 1 < text.size() &&
               std::string_view(":.=").find(text[i + 1]) != text.npos) {
      // "[:alpha:]" and the like
      const std::size_t end = text.find(std::string{text[i + 1], ']'}, i + 2);
      if (end != text.npos) i = end + 1;
    }
  }
  return 0;
}

}  // namespace

bool NamePattern::Element::takes(char c) const {
  if (kind == Kind::literal) return c == byte;
  if (kind == Kind::any) return true;
  const char text[] = {c, 0};
  return fnmatch(set.c_str(), text, 0) == 0;
}

std::optional<NamePattern> NamePattern::parse(std::string_view text) {
  using Kind = Element::Kind;
  NamePattern out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '*':
        out.elements_.push_back({Kind::star});
        break;
      case '?':
        out.elements_.push_back({Kind::any});
        break;
      case '[': {
        const std::size_t length = set_length(text.substr(i));
        if (length == 0) return std::nullopt;
        out.elements_.push_back({Kind::set, 0, std::string(text.substr(i, length))});
        i += length - 1;
        break;
      }
      case '\\':
        if (++i == text.size()) return std::nullopt;
        [[fallthrough]];
      default:
        out.elements_.push_back({Kind::literal, text[i]});
    }
  }
  return out;
}

std::size_t NamePattern::captures() const {
  return static_cast<std::size_t>(std::count_if(
      elements_.begin(), elements_.end(), [](const Element& e) { return e.kind != Element::Kind::literal; }));
}

std::optional<std::vector<std::string_view>> NamePattern::match(std::string_view name) const {
  using Kind = Element::Kind;
  // Most names differ from the start.
  for (std::size_t i = 0; i < elements_.size() && elements_[i].kind == Kind::literal; ++i) {
    if (i == name.size() || name[i] != elements_[i].byte) return std::nullopt;
  }
  // What follows a star and is matched early leaves most to what follows: only the last star is ever widened.
  std::vector<std::size_t> taken(elements_.size(), 0);  // bytes of each element
  std::size_t e = 0, at = 0;
  std::optional<std::size_t> star;
  std::size_t after_star = 0;  // where what the last star takes ends
  while (at < name.size() || e < elements_.size()) {
    if (e < elements_.size() && elements_[e].kind == Kind::star) {
      star = e++;
      after_star = at;
    } else if (e < elements_.size() && at < name.size() && elements_[e].takes(name[at])) {
      taken[e++] = 1;
      ++at;
    } else if (star && after_star < name.size()) {
      ++taken[*star];
      at = ++after_star;
      e = *star + 1;
    } else {
      return std::nullopt;
    }
  }
  std::vector<std::string_view> out;
  at = 0;
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    if (elements_[i].kind != Kind::literal) out.push_back(name.substr(at, taken[i]));
    at += taken[i];
  }
  return out;
}

void check_glob(const std::string& glob, const std::string& what) {
  if (glob.empty()) fail(Status::usage, "{}: an empty glob matches nothing", what);
  if (glob.find('\0') != std::string::npos) fail(Status::usage, "{}: the glob holds a zero byte", what);
  if (NamePattern::parse(glob)) return;
  fail(Status::usage, "{}: '{}' is not a glob: a [ is not closed, or a \\ ends it; \\[ stands for the bracket itself", what,
       printable(glob));
}

std::optional<std::string> fill_captures(std::string_view replace,
                                         const std::vector<std::string_view>& captures) {
  std::string out;
  for (std::size_t i = 0; i < replace.size(); ++i) {
    if (replace[i] != '$') {
      out += replace[i];
      continue;
    }
    const char next = ++i < replace.size() ? replace[i] : ' ';
    if (next == '$') {
      out += '$';
    } else if (next >= '1' && next <= '9' && static_cast<std::size_t>(next - '1') < captures.size()) {
      out += captures[static_cast<std::size_t>(next - '1')];
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace slabload
