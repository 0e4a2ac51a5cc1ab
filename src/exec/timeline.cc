#include "exec/timeline.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/error.h"

namespace slabload {
namespace {

// What keeping two tensors apart is worth when spans are joined, in seconds of a gap that is closed instead.
constexpr double kNamePrice_s = 1e-3;

constexpr std::uint64_t kMagic = 0x31454d4954424c53;  // changes with the encoding
using Words = std::array<std::uint64_t, 4>;           // one span

std::size_t number_of(Phase phase) {
  return static_cast<std::size_t>(phase);
}

void absorb(TimelineSpan& into, const TimelineSpan& span) {
  into.begin_s = std::min(into.begin_s, span.begin_s);
  into.end_s = std::max(into.end_s, span.end_s);
  into.bytes += span.bytes;
  if (into.tensor != span.tensor) into.tensor = kNoTensor;
}

double total_s(const std::vector<Span>& spans) {
  double sum = 0;
  for (const Span& span : spans) sum += span.end_s - span.begin_s;
  return sum;
}

}  // namespace

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> names{"open", "plan", "read", "copy", "fill", "verify", "write"};
  return names.at(number_of(phase));
}

void Timeline::add(Phase phase, std::uint32_t tensor, double begin_s, double end_s, std::uint64_t bytes) {
  TimelineSpan span{begin_s, std::max(begin_s, end_s), bytes, tensor, phase};
  std::size_t& last = last_[number_of(phase)];
  if (last != 0) {
    TimelineSpan& before = spans_[last - 1];
    double gap_s = std::max(span.begin_s - before.end_s, before.begin_s - span.end_s);
    if (before.tensor == tensor && gap_s < kGap_s) return absorb(before, span);
  }
  spans_.push_back(span);
  last = spans_.size();
  // To the half, so that joining is rare however many spans come.
  if (spans_.size() > most_) coarsen(most_ / 2);
}

void Timeline::coarsen(std::size_t most) {
  if (spans_.size() <= most) return;
  std::sort(spans_.begin(), spans_.end(), [](const TimelineSpan& a, const TimelineSpan& b) {
    return std::tie(a.phase, a.begin_s) < std::tie(b.phase, b.begin_s);
  });
  // Joining a span to the one before it, and what that costs.
  struct Join {
    double cost_s;
    std::size_t at;
  };
  std::vector<Join> joins;
  for (std::size_t i = 1; i < spans_.size(); ++i) {
    const TimelineSpan& before = spans_[i - 1];
    const TimelineSpan& span = spans_[i];
    if (before.phase != span.phase) continue;
    double gap_s = std::max(0.0, span.begin_s - before.end_s);
    joins.push_back({gap_s + (before.tensor == span.tensor ? 0 : kNamePrice_s), i});
  }
  auto count = static_cast<std::ptrdiff_t>(std::min(joins.size(), spans_.size() - most));
  std::nth_element(joins.begin(), joins.begin() + count, joins.end(),
                   [](const Join& a, const Join& b) { return a.cost_s < b.cost_s; });
  std::vector<bool> joined(spans_.size(), false);
  for (auto join = joins.begin(); join != joins.begin() + count; ++join) joined[join->at] = true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (joined[i]) {
      absorb(spans_[kept - 1], spans_[i]);
    } else {
      spans_[kept++] = spans_[i];
    }
  }
  spans_.resize(kept);
  find_last();
}

void Timeline::find_last() {
  last_.fill(0);
  for (std::size_t i = 0; i < spans_.size(); ++i) last_[number_of(spans_[i].phase)] = i + 1;
}

// Disjoint and ascending.
std::vector<Span> Timeline::union_of(std::initializer_list<Phase> phases) const {
  std::vector<Span> all;
  for (const TimelineSpan& span : spans_) {
    if (std::find(phases.begin(), phases.end(), span.phase) != phases.end())
      all.push_back({span.begin_s, span.end_s});
  }
  std::sort(all.begin(), all.end(), [](const Span& a, const Span& b) { return a.begin_s < b.begin_s; });
  std::vector<Span> out;
  for (const Span& span : all) {
    if (!out.empty() && span.begin_s <= out.back().end_s) {
      out.back().end_s = std::max(out.back().end_s, span.end_s);
    } else {
      out.push_back(span);
    }
  }
  return out;
}

double Timeline::busy_s(std::initializer_list<Phase> phases) const {
  return total_s(union_of(phases));
}

double Timeline::overlap_s(std::initializer_list<Phase> a, std::initializer_list<Phase> b) const {
  std::vector<Span> of_a = union_of(a), of_b = union_of(b), both;
  for (auto x = of_a.begin(), y = of_b.begin(); x != of_a.end() && y != of_b.end();) {
    Span common{std::max(x->begin_s, y->begin_s), std::min(x->end_s, y->end_s)};
    if (common.begin_s < common.end_s) both.push_back(common);
    if (x->end_s < y->end_s) {
      ++x;
    } else {
      ++y;
    }
  }
  return total_s(both);
}

std::string Timeline::to_bytes() const {
  std::string out(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  out.reserve(sizeof kMagic + spans_.size() * sizeof(Words));
  for (const TimelineSpan& span : spans_) {
    Words words{std::bit_cast<std::uint64_t>(span.begin_s), std::bit_cast<std::uint64_t>(span.end_s),
                span.bytes, std::uint64_t{number_of(span.phase)} << 32 | span.tensor};
    out.append(reinterpret_cast<const char*>(words.data()), sizeof words);
  }
  return out;
}

Timeline Timeline::from_bytes(std::string_view bytes) {
  auto check = [](bool holds) {
    if (!holds) fail(Status::internal, "a timeline sent by another rank is damaged");
  };
  std::uint64_t magic = 0;
  check(bytes.size() >= sizeof magic);
  std::memcpy(&magic, bytes.data(), sizeof magic);
  bytes.remove_prefix(sizeof magic);
  check(magic == kMagic && bytes.size() % sizeof(Words) == 0);
  Timeline out;
  out.spans_.reserve(bytes.size() / sizeof(Words));
  for (; !bytes.empty(); bytes.remove_prefix(sizeof(Words))) {
    Words words;
    std::memcpy(words.data(), bytes.data(), sizeof words);
    auto begin_s = std::bit_cast<double>(words[0]), end_s = std::bit_cast<double>(words[1]);
    check(std::isfinite(begin_s) && std::isfinite(end_s) && begin_s <= end_s && words[3] >> 32 < kPhaseCount);
    out.spans_.push_back(
        {begin_s, end_s, words[2], static_cast<std::uint32_t>(words[3]), static_cast<Phase>(words[3] >> 32)});
  }
  out.coarsen(kMostSpans);
  out.find_last();
  return out;
}

}  // namespace slabload
