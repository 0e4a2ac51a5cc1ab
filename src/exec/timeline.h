// When one rank did what: spans of time by phase and tensor, and how much of them lay behind each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "backend/fabric.h"

namespace slabload {

enum class Phase : std::uint8_t { open, plan, read, copy, fill, verify, write };
inline constexpr std::size_t kPhaseCount = 7;
std::string_view phase_name(Phase phase);

// In place of a tensor's number: a span of none, or of several.
inline constexpr std::uint32_t kNoTensor = 0xffffffff;

// Times in seconds as now_s() counts (base/stopwatch.h); begin_s <= end_s.
struct TimelineSpan {
  double begin_s = 0, end_s = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tensor = kNoTensor;
  Phase phase = Phase::open;
};

// The spans of one rank in bounded memory. What would be too much detail is joined to neighbours of the same
// phase: a joined span reaches from the first begin to the last end and has the bytes of all, so no byte is
// ever lost, but gaps inside it count as busy.
class Timeline {
 public:
  // 2 MiB; joining takes as much again for a moment.
  static constexpr std::size_t kMostSpans = 65536;
  // Spans of one phase and tensor, one after the other, are joined if less than this lies between them.
  static constexpr double kGap_s = 50e-6;

  // Keeps at most `most` spans, but one of each phase in any case.
  explicit Timeline(std::size_t most = kMostSpans) : most_(most) {}

  // Notes that this rank was at `tensor` (or kNoTensor) from begin_s to end_s; an end before the begin counts
  // as the begin. Spans may overlap and may come in any order.
  void add(Phase phase, std::uint32_t tensor, double begin_s, double end_s, std::uint64_t bytes);

  // Joins neighbours until at most `most` spans are left (one of each phase in any case): first what is
  // closest in time, and rather pieces of one tensor than two tensors. What is left is in the order of phase
  // and begin.
  void coarsen(std::size_t most);

  const std::vector<TimelineSpan>& spans() const { return spans_; }

  // Seconds during which at least one of the phases was under way. O(n log n), as the next.
  double busy_s(std::initializer_list<Phase> phases) const;
  // Seconds during which one of `a` and one of `b` were under way at the same time.
  double overlap_s(std::initializer_list<Phase> a, std::initializer_list<Phase> b) const;

  // How long copies or fills were under way, and the part of it during which this rank was reading.
  double moving_s() const { return busy_s({Phase::copy, Phase::fill}); }
  double hidden_s() const { return overlap_s({Phase::copy, Phase::fill}, {Phase::read}); }

  // A byte string of 32 bytes per span, to be sent to a rank of the same job; from_bytes throws
  // Status::internal on anything malformed.
  std::string to_bytes() const;
  static Timeline from_bytes(std::string_view bytes);

 private:
  std::vector<Span> union_of(std::initializer_list<Phase> phases) const;
  void find_last();

  std::size_t most_;
  std::vector<TimelineSpan> spans_;
  // The position of each phase's youngest span plus 1; 0 if there is none.
  std::array<std::size_t, kPhaseCount> last_{};
};

}  // namespace slabload
