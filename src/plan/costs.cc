#include "plan/costs.h"

#include <algorithm>
#include <charconv>

#include "base/bytes.h"
#include "base/error.h"

namespace slabload {
namespace {

std::optional<double> seconds_of(std::string_view text) {
  double factor = 1;
  for (auto [unit, value] : {std::pair{std::string_view("us"), 1e-6}, {"ms", 1e-3}, {"s", 1.0}}) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    factor = value;
    break;
  }
  double number = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || code != std::errc() || end != text.data() + text.size() || !(number >= 0) || number > 1e9)
    return std::nullopt;
  return number * factor;
}

std::string rate_text(double rate) {
  return format_bytes(static_cast<std::uint64_t>(rate)) + "/s";
}

std::string seconds_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:g}us", seconds * 1e6) : fmt::format("{:g}ms", seconds * 1e3);
}

}  // namespace

Costs Costs::parse(const std::string& text) {
  Costs costs;
  if (text.empty()) return costs;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    std::optional<double>* time = key == "request"   ? &costs.request_s
                                  : key == "message" ? &costs.message_s
                                                     : nullptr;
    std::optional<double>* rate = key == "fs"            ? &costs.filesystem
                                  : key == "fs_per_rank" ? &costs.filesystem_rank
                                  : key == "fabric"      ? &costs.fabric_rank
                                  : key == "copy"        ? &costs.memory
                                                         : nullptr;
    if (time != nullptr) *time = seconds_of(value);
    if (rate != nullptr) rate->reset();  // a value given twice must be one both times
    if (rate != nullptr && value.ends_with("/s")) {
      const std::uint64_t bytes = parse_bytes(value.substr(0, value.size() - 2), "--cost");
      if (bytes != 0) *rate = static_cast<double>(bytes);
    }
    if (!(time != nullptr && *time) && !(rate != nullptr && *rate)) {
      fail(Status::usage,
           "--cost: '{}' is none of request=TIME, message=TIME (such as 0.5ms), fs=RATE, fs_per_rank=RATE, "
           "fabric=RATE, copy=RATE (such as 5GB/s)",
           printable(part));
    }
  }
  return costs;
}

std::string Costs::text() const {
  return fmt::format("request={},fs={},fs_per_rank={},fabric={},message={},copy={}", seconds_text(request()),
                     rate_text(fs()), rate_text(fs_per_rank()), rate_text(fabric()), seconds_text(message()),
                     rate_text(copy()));
}

}  // namespace slabload
