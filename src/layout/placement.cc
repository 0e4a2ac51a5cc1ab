// Placement: the words for what a mesh axis does to a tensor.
#include <charconv>
#include <optional>

#include "base/error.h"
#include "layout/layout.h"

namespace slabload {
namespace {

// The whole number that is all of `text`, or nothing.
template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Placement Placement::parse(std::string_view text) {
  if (text == "R") return {};
  if (text == "F") return {Kind::flat};
  if (text.starts_with("S(") && text.ends_with(")")) {
    auto dim = number_of<std::int64_t>(text.substr(2, text.size() - 3));
    if (dim) return {Kind::shard, *dim};
  }
  if (text.starts_with("SS(") && text.ends_with(")")) {
    std::string_view inner = text.substr(3, text.size() - 4);
    std::size_t comma = inner.find(',');
    if (comma != std::string_view::npos) {
      std::string_view second = inner.substr(comma + 1);
      while (second.starts_with(' ')) second.remove_prefix(1);
      auto dim = number_of<std::int64_t>(inner.substr(0, comma));
      auto factor = number_of<std::uint64_t>(second);
      if (dim && factor && (*factor == 0 || *factor > kMostFactor)) {
        fail(Status::usage, "placement '{}': the split factor is not in 1..{}", printable(text), kMostFactor);
      }
      if (dim && factor) return {Kind::strided, *dim, *factor};
    }
  }
  if (text.starts_with("P")) {
    fail(Status::usage,
         "placement '{}': a checkpoint holds values, not summands, so Partial cannot be loaded",
         printable(text));
  }
  fail(Status::usage, "placement '{}' is not R, S(dim), SS(dim,factor) or F", printable(text));
}

std::string Placement::text() const {
  switch (kind) {
    case Kind::replicate:
      return "R";
    case Kind::shard:
      return fmt::format("S({})", dim);
    case Kind::strided:
      return fmt::format("SS({},{})", dim, factor);
    case Kind::flat:
      return "F";
  }
  return "?";
}

}  // namespace slabload
