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

RunsWithin runs_within(std::uint64_t length, std::uint64_t begin, std::uint64_t end) {
  end = std::min(length, end);
  RunsWithin out{{}, length, begin};
  if (begin < end) out.runs.push_back({begin, end - begin});
  return out;
}

RunsWithin split(const RunsWithin& list, std::uint64_t factor, std::uint64_t parts, std::uint64_t part) {
  RunsWithin out;
  if (list.length == 0) return out;
  const std::uint64_t length = list.length;
  const std::uint64_t chunk = factor == 0 ? length : ceil_div(length, factor);
  const std::uint64_t of_full = torch_chunk({0, chunk}, parts, part).extent;
  out.length = length / chunk * of_full + torch_chunk({0, length % chunk}, parts, part).extent;
  const std::uint64_t begin = list.before, end = begin + length_of(list.runs);  // positions in the list
  Slicer slicer(list.runs);
  for (std::uint64_t c = begin / chunk; c * chunk < end; ++c) {
    const ChunkSpan span = torch_chunk({c * chunk, std::min(chunk, length - c * chunk)}, parts, part);
    const std::uint64_t from = std::max(begin, span.start), to = std::min(end, span.start + span.extent);
    if (from >= to) continue;
    if (out.runs.empty()) out.before = c * of_full + (from - span.start);
    slicer.append(from - begin, to - begin, out.runs);
  }
  return out;
}

std::vector<std::uint64_t> parts_that_meet(const RunsWithin& list, std::uint64_t factor, std::uint64_t parts) {
  std::vector<std::uint64_t> out;
  if (list.runs.empty()) return out;
  const std::uint64_t chunk = factor == 0 ? list.length : ceil_div(list.length, factor);
  const std::uint64_t begin = list.before, end = begin + length_of(list.runs);
  for (std::uint64_t c = begin / chunk; c * chunk < end; ++c) {
    const std::uint64_t step = ceil_div(std::min(chunk, list.length - c * chunk), parts);
    const std::uint64_t low = std::max(begin, c * chunk) - c * chunk;
    const std::uint64_t high = std::min(end, c * chunk + chunk) - 1 - c * chunk;
    for (std::uint64_t part = low / step; part <= high / step; ++part) out.push_back(part);
    if (out.size() >= 2 * parts) {  // no more than the parts there are
      std::sort(out.begin(), out.end());
      out.erase(std::unique(out.begin(), out.end()), out.end());
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace slabload
