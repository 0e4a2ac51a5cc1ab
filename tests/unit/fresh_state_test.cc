// Looking again at a file whose time lags behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/host/file.h"

namespace slabload::host {
namespace {

// Answers one time after the other; the last one stays.
int looks_until(std::int64_t indexed_ns, const std::vector<std::int64_t>& times, std::int64_t* last) {
  int looks = 0;
  const FileState state = fresh_state(indexed_ns, [&] {
    const std::size_t i = std::min(static_cast<std::size_t>(looks++), times.size() - 1);
    return FileState{1, times[i], 2};
  });
  *last = state.mtime_ns;
  return looks;
}

TEST(FreshState, WaitsForATimeThatLags) {
  std::int64_t last = 0;
  EXPECT_EQ(looks_until(100, {100}, &last), 1);
  EXPECT_EQ(last, 100);
  EXPECT_EQ(looks_until(100, {90, 90, 100, 110}, &last), 3);
  EXPECT_EQ(last, 100);
}

TEST(FreshState, SeesANewerFileAtOnceAndGivesUpOnAnOlderOne) {
  std::int64_t last = 0;
  EXPECT_EQ(looks_until(100, {101}, &last), 1);
  EXPECT_EQ(last, 101);
  EXPECT_EQ(looks_until(100, {99}, &last), 31);
  EXPECT_EQ(last, 99);
}

}  // namespace
}  // namespace slabload::host
