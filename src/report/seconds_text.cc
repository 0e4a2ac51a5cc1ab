#include "report/seconds_text.h"

#include <fmt/format.h>

namespace slabload {

std::string seconds_text(double seconds) {
  // From where four digits would round up to the next unit.
  if (!(seconds >= 1e-9)) return "0 s";
  if (seconds < 0.99995e-3) return fmt::format("{:.4g} us", seconds * 1e6);
  if (seconds < 0.99995) return fmt::format("{:.4g} ms", seconds * 1e3);
  return seconds < 1000 ? fmt::format("{:.4g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

}  // namespace slabload
