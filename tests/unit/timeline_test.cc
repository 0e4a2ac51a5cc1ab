// Timelines of one rank: joining, bounded memory, busy and common time, the byte string.
#include "exec/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "thrown_error.h"

namespace slabload {
namespace {

using ::testing::HasSubstr;
using testing::thrown_error;

constexpr double kUs = 1e-6;
constexpr double kNear = 1e-9;  // far below a microsecond, far above the rounding of times around kStart
constexpr double kStart = 5000;

// Adds a span given in microseconds after kStart.
void add_us(Timeline& timeline, Phase phase, std::uint32_t tensor, double begin, double end,
            std::uint64_t bytes = 0) {
  timeline.add(phase, tensor, kStart + begin * kUs, kStart + end * kUs, bytes);
}

void expect_span(const TimelineSpan& span, Phase phase, std::uint32_t tensor, double begin_us, double end_us,
                 std::uint64_t bytes) {
  EXPECT_EQ(span.phase, phase);
  EXPECT_EQ(span.tensor, tensor);
  EXPECT_NEAR(span.begin_s, kStart + begin_us * kUs, kNear);
  EXPECT_NEAR(span.end_s, kStart + end_us * kUs, kNear);
  EXPECT_EQ(span.bytes, bytes);
}

std::uint64_t bytes_of(const Timeline& timeline, Phase phase) {
  std::uint64_t sum = 0;
  for (const TimelineSpan& span : timeline.spans()) sum += span.phase == phase ? span.bytes : 0;
  return sum;
}

TEST(Timeline, AnEmptyOneIsNeverBusy) {
  Timeline timeline;
  EXPECT_EQ(timeline.moving_s(), 0);
  EXPECT_EQ(timeline.hidden_s(), 0);
  EXPECT_EQ(timeline.busy_s({}), 0);
  timeline.coarsen(0);
  EXPECT_TRUE(timeline.spans().empty());
}

TEST(Timeline, PiecesOfOneTensorAreJoinedAcrossShortGaps) {
  Timeline timeline;
  add_us(timeline, Phase::read, 7, 0, 100, 10);
  add_us(timeline, Phase::verify, 7, 100, 120, 10);  // what lies between in another phase does not matter
  add_us(timeline, Phase::read, 7, 140, 200, 20);    // 40 us after
  add_us(timeline, Phase::read, 7, 260, 300, 30);    // 60 us after
  add_us(timeline, Phase::read, 8, 300, 310, 40);    // another tensor
  add_us(timeline, Phase::read, 7, 310, 320, 50);
  ASSERT_EQ(timeline.spans().size(), 5u);
  expect_span(timeline.spans()[0], Phase::read, 7, 0, 200, 30);
  expect_span(timeline.spans()[1], Phase::verify, 7, 100, 120, 10);
  expect_span(timeline.spans()[2], Phase::read, 7, 260, 300, 30);
  expect_span(timeline.spans()[3], Phase::read, 8, 300, 310, 40);
  expect_span(timeline.spans()[4], Phase::read, 7, 310, 320, 50);
}

TEST(Timeline, SpansThatOverlapOrComeLateAreJoinedToo) {
  Timeline timeline;
  add_us(timeline, Phase::fill, kNoTensor, 100, 300, 1);
  add_us(timeline, Phase::fill, kNoTensor, 150, 250, 2);  // within
  add_us(timeline, Phase::fill, kNoTensor, 50, 80, 4);    // before it, 20 us away
  ASSERT_EQ(timeline.spans().size(), 1u);
  expect_span(timeline.spans()[0], Phase::fill, kNoTensor, 50, 300, 7);
  add_us(timeline, Phase::fill, kNoTensor, 10, 20, 8);  // 30 us before
  add_us(timeline, Phase::fill, kNoTensor, -900, -500, 16);
  ASSERT_EQ(timeline.spans().size(), 2u);
  expect_span(timeline.spans()[0], Phase::fill, kNoTensor, 10, 300, 15);
  expect_span(timeline.spans()[1], Phase::fill, kNoTensor, -900, -500, 16);
}

TEST(Timeline, AnEndBeforeTheBeginIsTheBegin) {
  Timeline timeline;
  add_us(timeline, Phase::copy, 1, 500, 400, 9);
  expect_span(timeline.spans()[0], Phase::copy, 1, 500, 500, 9);
  EXPECT_EQ(timeline.moving_s(), 0);
}

// read   [0      1000]          [2000    3000]
// copy        [800  1200]
// fill                 [1100 1500]  [2200 2300]   [3500 3600]
// moving      [800          1500]   [2200 2300]   [3500 3600]   900 us, of which reads: 200 + 100
TEST(Timeline, MovingAndHiddenTime) {
  Timeline timeline;
  add_us(timeline, Phase::read, 0, 0, 1000);
  add_us(timeline, Phase::copy, 0, 800, 1200);
  add_us(timeline, Phase::fill, 0, 1100, 1500);
  add_us(timeline, Phase::read, 1, 2000, 3000);
  add_us(timeline, Phase::fill, 1, 2200, 2300);
  add_us(timeline, Phase::fill, 2, 3500, 3600);
  add_us(timeline, Phase::verify, 2, 0, 5000);
  EXPECT_NEAR(timeline.moving_s(), 900 * kUs, kNear);
  EXPECT_NEAR(timeline.hidden_s(), 300 * kUs, kNear);
  EXPECT_NEAR(timeline.busy_s({Phase::read}), 2000 * kUs, kNear);
  EXPECT_NEAR(timeline.busy_s({Phase::copy}), 400 * kUs, kNear);
  EXPECT_NEAR(timeline.busy_s({Phase::fill}), 600 * kUs, kNear);
  EXPECT_NEAR(timeline.busy_s({Phase::read, Phase::fill}), 2500 * kUs, kNear);
  EXPECT_NEAR(timeline.overlap_s({Phase::copy}, {Phase::fill}), 100 * kUs, kNear);
  EXPECT_NEAR(timeline.overlap_s({Phase::verify}, {Phase::read, Phase::copy, Phase::fill}), 2600 * kUs,
              kNear);
  EXPECT_EQ(timeline.busy_s({Phase::open, Phase::plan}), 0);
}

TEST(Timeline, RandomSpansAgainstCountingEveryMicrosecond) {
  constexpr int kLength = 3000;
  std::mt19937 random(17);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int turn = 0; turn < 300; ++turn) {
    Timeline timeline;
    std::map<Phase, std::vector<bool>> at;
    for (std::size_t p = 0; p < kPhaseCount; ++p) at[static_cast<Phase>(p)].resize(kLength);
    int count = below(60), longest = 1 + below(400);
    for (int i = 0; i < count; ++i) {
      auto phase = static_cast<Phase>(below(kPhaseCount));
      int begin = below(kLength), end = std::min(kLength, begin + below(longest));
      // A tensor of its own for each, so that none is joined.
      add_us(timeline, phase, static_cast<std::uint32_t>(i), begin, end);
      std::fill(at[phase].begin() + begin, at[phase].begin() + end, true);
    }
    ASSERT_EQ(timeline.spans().size(), static_cast<std::size_t>(count));
    int moving = 0, hidden = 0, open_or_read = 0, both = 0;
    for (std::size_t us = 0; us < kLength; ++us) {
      bool moves = at[Phase::copy][us] || at[Phase::fill][us];
      bool opens = at[Phase::open][us] || at[Phase::read][us];
      moving += moves;
      hidden += moves && at[Phase::read][us];
      open_or_read += opens;
      both += opens && (at[Phase::verify][us] || at[Phase::plan][us]);
    }
    EXPECT_NEAR(timeline.moving_s(), moving * kUs, kNear) << turn;
    EXPECT_NEAR(timeline.hidden_s(), hidden * kUs, kNear) << turn;
    EXPECT_NEAR(timeline.busy_s({Phase::open, Phase::read}), open_or_read * kUs, kNear) << turn;
    EXPECT_NEAR(timeline.overlap_s({Phase::verify, Phase::plan}, {Phase::open, Phase::read}), both * kUs,
                kNear)
        << turn;
  }
}

TEST(Timeline, CoarseningJoinsWhatIsClosest) {
  Timeline timeline;
  add_us(timeline, Phase::read, 1, 0, 100, 1);
  add_us(timeline, Phase::read, 1, 200, 300, 2);  // gap 100
  add_us(timeline, Phase::read, 1, 600, 700, 4);  // gap 300
  add_us(timeline, Phase::read, 2, 700, 800, 8);  // no gap, but another tensor
  add_us(timeline, Phase::fill, 2, 50, 60, 16);
  timeline.coarsen(5);
  ASSERT_EQ(timeline.spans().size(), 5u);
  timeline.coarsen(4);
  ASSERT_EQ(timeline.spans().size(), 4u);
  expect_span(timeline.spans()[0], Phase::read, 1, 0, 300, 3);
  timeline.coarsen(3);
  ASSERT_EQ(timeline.spans().size(), 3u);
  expect_span(timeline.spans()[0], Phase::read, 1, 0, 700, 7);
  expect_span(timeline.spans()[1], Phase::read, 2, 700, 800, 8);
  expect_span(timeline.spans()[2], Phase::fill, 2, 50, 60, 16);
  timeline.coarsen(0);  // never below one of each phase
  ASSERT_EQ(timeline.spans().size(), 2u);
  expect_span(timeline.spans()[0], Phase::read, kNoTensor, 0, 800, 15);
  expect_span(timeline.spans()[1], Phase::fill, 2, 50, 60, 16);
  // What comes after is joined to the youngest span that is left, not to one that is gone.
  add_us(timeline, Phase::fill, 2, 70, 80, 32);
  ASSERT_EQ(timeline.spans().size(), 2u);
  expect_span(timeline.spans()[1], Phase::fill, 2, 50, 80, 48);
}

TEST(Timeline, MemoryIsBoundedAndNoByteIsLost) {
  constexpr std::size_t kMost = 100;
  std::mt19937 random(23);
  Timeline timeline(kMost);
  std::map<Phase, std::uint64_t> bytes;
  std::map<Phase, double> begin, end;
  double at = 0;
  for (int i = 0; i < 20000; ++i) {
    auto phase = static_cast<Phase>(random() % kPhaseCount);
    double length = random() % 200;
    at += random() % 300;
    std::uint64_t count = random() % 1000;
    add_us(timeline, phase, random() % 50, at, at + length, count);
    begin.try_emplace(phase, at);
    end[phase] = std::max(end[phase], at + length);
    bytes[phase] += count;
    ASSERT_LE(timeline.spans().size(), kMost);
  }
  EXPECT_GE(timeline.spans().size(), kMost / 2);
  for (std::size_t p = 0; p < kPhaseCount; ++p) {
    auto phase = static_cast<Phase>(p);
    EXPECT_EQ(bytes_of(timeline, phase), bytes[phase]) << phase_name(phase);
    double first = std::numeric_limits<double>::infinity(), last = 0;
    for (const TimelineSpan& span : timeline.spans()) {
      EXPECT_LE(span.begin_s, span.end_s);
      if (span.phase != phase) continue;
      first = std::min(first, span.begin_s);
      last = std::max(last, span.end_s);
    }
    EXPECT_NEAR(first, kStart + begin[phase] * kUs, kNear);
    EXPECT_NEAR(last, kStart + end[phase] * kUs, kNear);
  }
}

// 1,000 bursts of 100 reads of 1 ms without gaps, 1 s apart: there is room for the bursts, so the gaps
// between them stay.
TEST(Timeline, JoiningKeepsBusyTimesWhereTheGapsAreFew) {
  Timeline timeline(4000);
  for (int burst = 0; burst < 1000; ++burst) {
    for (int i = 0; i < 100; ++i) {
      double begin = burst * 1e6 + i * 1000;
      add_us(timeline, Phase::read, static_cast<std::uint32_t>(i), begin, begin + 1000, 1);
    }
    add_us(timeline, Phase::fill, 0, burst * 1e6 + 50000, burst * 1e6 + 250000,
           1);  // half of 100 ms of reads
  }
  EXPECT_LE(timeline.spans().size(), 4000u);
  EXPECT_NEAR(timeline.busy_s({Phase::read}), 100, 1e-6);
  EXPECT_NEAR(timeline.moving_s(), 200, 1e-6);
  EXPECT_NEAR(timeline.hidden_s(), 50, 1e-6);
}

TEST(Timeline, PhasesHaveNames) {
  EXPECT_EQ(phase_name(Phase::open), "open");
  EXPECT_EQ(phase_name(Phase::plan), "plan");
  EXPECT_EQ(phase_name(Phase::read), "read");
  EXPECT_EQ(phase_name(Phase::copy), "copy");
  EXPECT_EQ(phase_name(Phase::fill), "fill");
  EXPECT_EQ(phase_name(Phase::verify), "verify");
}

TEST(Timeline, BytesRebuildIt) {
  Timeline timeline;
  add_us(timeline, Phase::plan, kNoTensor, 0, 100);
  add_us(timeline, Phase::verify, 4000000000, 200, 1e9, std::numeric_limits<std::uint64_t>::max());
  add_us(timeline, Phase::read, 0, -3, -1, 5);
  std::string bytes = timeline.to_bytes();
  EXPECT_EQ(bytes.size(), 8u + 3 * 32);
  Timeline copy = Timeline::from_bytes(bytes);
  ASSERT_EQ(copy.spans().size(), 3u);
  expect_span(copy.spans()[0], Phase::plan, kNoTensor, 0, 100, 0);
  expect_span(copy.spans()[1], Phase::verify, 4000000000, 200, 1e9,
              std::numeric_limits<std::uint64_t>::max());
  expect_span(copy.spans()[2], Phase::read, 0, -3, -1, 5);
  EXPECT_EQ(copy.to_bytes(), bytes);
  add_us(copy, Phase::read, 0, 0, 10, 1);
  EXPECT_EQ(copy.spans().size(), 3u);
  EXPECT_TRUE(Timeline::from_bytes(Timeline().to_bytes()).spans().empty());
}

TEST(Timeline, DamagedBytesAreRefused) {
  Timeline timeline;
  add_us(timeline, Phase::fill, 3, 0, 100, 5);
  add_us(timeline, Phase::read, 3, 0, 100, 5);
  const std::string whole = timeline.to_bytes();
  auto expect_refused = [](const std::string& bytes) {
    Error error = thrown_error([&] { Timeline::from_bytes(bytes); });
    EXPECT_EQ(error.status(), Status::internal);
    EXPECT_THAT(error.message(), HasSubstr("timeline"));
  };
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (size != 8 && size != 40) expect_refused(whole.substr(0, size));
  }
  expect_refused(whole + "x");
  auto changed = [&](std::size_t at, auto value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  expect_refused(changed(0, 'x'));
  expect_refused(changed(8, std::numeric_limits<double>::quiet_NaN()));
  expect_refused(changed(16, std::numeric_limits<double>::infinity()));
  expect_refused(changed(16, kStart - 1));        // an end before the begin
  expect_refused(changed(36, std::uint32_t{7}));  // no such phase
  expect_refused(changed(36, std::uint32_t{0x80000000}));
}

}  // namespace
}  // namespace slabload
