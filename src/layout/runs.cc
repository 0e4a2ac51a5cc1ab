#include "layout/runs.h"

#include <algorithm>
#include <numeric>

#include "base/narrow.h"
#include "layout/layout.h"

namespace slabload {

std::uint64_t length_of(const Runs& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Run& run) { return sum + run.extent; });
}

namespace {

// Takes slices out of a list of runs, each behind the one before it: one pass over the list for all of them.
class Slicer {
 public:
  explicit Slicer(const Runs& runs) : runs_(runs) {}

  // Appends positions begin..end.
  void append(std::uint64_t begin, std::uint64_t end, Runs& out) {
    for (; run_ < runs_.size(); at_ += runs_[run_++].extent) {
      const Run& run = runs_[run_];
      std::uint64_t from = std::max(begin, at_);
      std::uint64_t to = std::min(end, at_ + run.extent);
      if (from < to) {
        std::uint64_t start = run.start + (from - at_);
        if (!out.empty() && out.back().start + out.back().extent == start) {
          out.back().extent += to - from;
        } else {
          out.push_back({start, to - from});
        }
      }
      if (at_ + run.extent >= end) return;
    }
  }

 private:
  const Runs& runs_;
  std::size_t run_ = 0;
  std::uint64_t at_ = 0;  // position of the run's first index
};

}  // namespace

Runs split(const Runs& runs, std::uint64_t factor, std::uint64_t parts, std::uint64_t part) {
  Runs out;
  const std::uint64_t length = length_of(runs);
  const std::uint64_t chunk = factor == 0 ? length : ceil_div(length, factor);
  Slicer slicer(runs);
  for (std::uint64_t begin = 0; begin < length; begin += chunk) {
    ChunkSpan span = torch_chunk({begin, std::min(chunk, length - begin)}, parts, part);
    if (span.extent != 0) slicer.append(span.start, span.start + span.extent, out);
  }
  return out;
}

void append_part_lengths(std::uint64_t length, std::uint64_t factor, std::uint64_t parts,
                         std::set<std::uint64_t>& out) {
  if (length == 0) {
    out.insert(0);
    return;
  }
  const std::uint64_t chunk = factor == 0 ? length : ceil_div(length, factor);
  const std::uint64_t full = length / chunk, rest = length % chunk;
  auto part_length = [&](std::uint64_t part) {
    return full * torch_chunk({0, chunk}, parts, part).extent + torch_chunk({0, rest}, parts, part).extent;
  };
  // They change only where the full chunks or the last one run out.
  for (std::uint64_t of : {chunk, rest}) {
    const std::uint64_t last = of == 0 ? 0 : of / ceil_div(of, parts);
    for (std::uint64_t part : {std::uint64_t{0}, last - (last != 0), last, last + 1}) {
      if (part < parts) out.insert(part_length(part));
    }
  }
}

std::vector<std::uint64_t> parts_that_meet(const Runs& runs, std::uint64_t factor, std::uint64_t parts,
                                           std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> out;
  const std::uint64_t length = length_of(runs);
  const std::uint64_t chunk = factor == 0 ? length : ceil_div(length, factor);
  std::uint64_t at = 0;
  for (const Run& run : runs) {
    std::uint64_t from = std::max(begin, run.start);
    std::uint64_t to = std::min(end, run.start + run.extent);
    if (from < to) {
      std::uint64_t first = at + (from - run.start);
      std::uint64_t last = at + (to - 1 - run.start);
      for (std::uint64_t c = first / chunk; c <= last / chunk; ++c) {
        std::uint64_t step = ceil_div(std::min(chunk, length - c * chunk), parts);
        std::uint64_t low = std::max(first, c * chunk) - c * chunk;
        std::uint64_t high = std::min(last, c * chunk + chunk - 1) - c * chunk;
        for (std::uint64_t part = low / step; part <= high / step; ++part) {
          if (out.empty() || out.back() != part) out.push_back(part);
        }
      }
    }
    at += run.extent;
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace slabload
