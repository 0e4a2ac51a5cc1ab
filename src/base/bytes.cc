#include "base/bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace slabload {
namespace {

struct Unit {
  const char* name;
  double factor;
};

// Splits "1.5 GiB" into a number and the factor of its unit.
double parse_quantity(std::string_view text, std::string_view what, const Unit* units, std::size_t count,
                      const char* expected) {
  // Digits and a point only: strtod alone would also take signs, exponents, hexadecimal numbers and "inf".
  std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string copy(text.substr(0, digits));
  char* end = nullptr;
  double number = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0' || !std::isfinite(number)) {
    fail(Status::usage, "{}: '{}' is not a {}", what, printable(text), expected);
  }
  std::string_view unit = text.substr(digits);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (std::size_t i = 0; i < count; ++i) {
    if (unit == units[i].name) return number * units[i].factor;
  }
  fail(Status::usage, "{}: '{}' has an unknown unit; expected a {}", what, printable(text), expected);
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view what) {
  static constexpr Unit kUnits[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                    {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},     {"kB", 1e3},
                                    {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  double value = parse_quantity(text, what, kUnits, std::size(kUnits), "size such as 64MiB or 5GB");
  if (value >= 0x1p63) fail(Status::usage, "{}: '{}' is beyond 8 EiB", what, printable(text));
  // Plain integers are taken exactly; a double would lose bytes above 2^53.
  if (text.find_first_not_of("0123456789") == std::string_view::npos) {
    return std::strtoull(std::string(text).c_str(), nullptr, 10);
  }
  return static_cast<std::uint64_t>(std::llround(value));
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr const char* kNames[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(kNames)) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 9.9995 ? 3 : value < 99.995 ? 2 : 1, kNames[unit]);
}

std::string format_binary(std::uint64_t bytes) {
  static constexpr const char* kNames[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kNames)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kNames[unit]);
}

double parse_seconds(std::string_view text, std::string_view what) {
  static constexpr Unit kUnits[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"min", 60}, {"h", 3600}};
  return parse_quantity(text, what, kUnits, std::size(kUnits), "time such as 300s or 5min");
}

}  // namespace slabload
