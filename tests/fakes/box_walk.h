// The elements of a box, one by one, for what plays plans through.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tensor/box.h"

namespace slabload::testing {

template <typename... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw std::runtime_error(fmt::format(format, std::forward<Args>(args)...));
}

// Calls visit(coordinate) for every element of a box, row-major.
template <typename Visit>
void each(const Box& box, Visit&& visit) {
  std::vector<std::uint64_t> at(box.start.begin(), box.start.end());
  for (std::uint64_t e : box.extent) {
    if (e == 0) return;
  }
  for (;;) {
    visit(at);
    std::size_t d = at.size();
    for (;; --d) {
      if (d == 0) return;
      if (++at[d - 1] < box.start[d - 1] + box.extent[d - 1]) break;
      at[d - 1] = box.start[d - 1];
    }
  }
}

// Where a coordinate lies in a dense buffer that holds `outer`.
inline std::uint64_t position(const std::vector<std::uint64_t>& at, const Box& outer) {
  std::uint64_t flat = 0;
  for (std::size_t d = 0; d < at.size(); ++d) {
    // The start of a shard's frame counts modulo 2^64.
    require(at[d] - outer.start[d] < outer.extent[d], "a coordinate outside of {}", outer.text());
    flat = flat * outer.extent[d] + at[d] - outer.start[d];
  }
  return flat;
}

}  // namespace slabload::testing
