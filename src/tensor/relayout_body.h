// A re-layout as numbers that a kernel can be given: runs of bytes moved from places in one buffer to places
// in another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"

namespace slabload {

// Moves `runs` runs of `run_bytes` bytes. The runs are numbered in row-major order over `extent`, of `ndim`
// dimensions, none of them of one step, no two that could be one; run 0 lies at from_offset and to_offset, a
// step in dimension d is from_step[d] and to_step[d] bytes. Nothing to move is runs = 0.
struct Relayout {
  static constexpr std::size_t kMost = 32;  // dimensions

  std::uint64_t runs;
  std::uint64_t run_bytes;
  std::uint64_t from_offset;
  std::uint64_t to_offset;
  std::uint32_t ndim;
  std::uint64_t extent[kMost];
  std::uint64_t from_step[kMost];
  std::uint64_t to_step[kMost];
};

// Where a run lies in the two buffers, in bytes.
struct RunPlace {
  std::uint64_t from;
  std::uint64_t to;
};

SLABLOAD_HD inline RunPlace place_of_run(const Relayout& layout, std::uint64_t run) {
  RunPlace place{layout.from_offset, layout.to_offset};
  for (std::uint32_t d = layout.ndim; d-- > 0;) {
    Quotient at = divide(run, layout.extent[d]);
    place.from += at.rest * layout.from_step[d];
    place.to += at.rest * layout.to_step[d];
    run = at.whole;
  }
  return place;
}

}  // namespace slabload
