#include "layout/fsdp2_storage.h"

#include <algorithm>

#include "base/narrow.h"

namespace slabload {

bool formula_is_storage(std::uint64_t length, std::uint64_t dp, std::uint64_t tp) {
  if (length == 0 || (length % dp == 0 && length / dp % tp == 0)) return true;
  // The chunks of TP: some full ones, a shorter last one, empty ones.
  const std::uint64_t chunk = ceil_div(length, tp);
  const std::uint64_t full = length / chunk;
  const std::uint64_t rest = length % chunk;
  const std::uint64_t step = ceil_div(chunk, dp);
  const std::uint64_t rest_step = ceil_div(rest, dp);
  auto part = [](std::uint64_t of, std::uint64_t by, std::uint64_t i) {
    return i < ceil_div(of, std::max<std::uint64_t>(by, 1)) ? std::min(by, of - i * by) : 0;
  };
  for (std::uint64_t i = 0; i < dp; ++i) {
    // What DP coordinate i gets of each chunk; the formula puts these together and cuts them evenly.
    const std::uint64_t of_full = part(chunk, step, i);
    const std::uint64_t of_rest = part(rest, rest_step, i);
    const std::uint64_t all = full * of_full + of_rest;
    if (all == 0) break;
    const std::uint64_t even = ceil_div(all, tp);
    for (std::uint64_t j = 0; j < full; ++j) {
      if (part(all, even, j) != of_full) return false;
    }
    if (full < tp && part(all, even, full) != of_rest) return false;
  }
  return true;
}

}  // namespace slabload
