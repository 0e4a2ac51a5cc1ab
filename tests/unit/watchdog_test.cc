// A watchdog speaks once, of what stands still, and only then.
#include "app/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "base/current_call.h"

namespace slabload {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// What it says when nothing comes after `last`.
template <typename Last>
std::string silence_after(double timeout_s, Last&& last) {
  std::promise<std::string> said;
  Watchdog watchdog(timeout_s, [&](const std::string& message, Status) { said.set_value(message); });
  last(watchdog);
  return said.get_future().get();
}

TEST(Watchdog, NamesPhaseTensorAndCall) {
  std::string tensor = "layers.0.\nweight";
  EXPECT_THAT(
      silence_after(0.05, [](Watchdog&) {}),
      MatchesRegex(
          "no progress for [0-9]+ s in phase start; ending the job .--timeout sets how long to wait."));
  EXPECT_THAT(silence_after(0.05, [&](Watchdog& w) { w.at("read", &tensor); }),
              HasSubstr("in phase read, tensor layers.0.\\x0aweight; ending the job"));
  CallName outer("cudaLaunchKernel");
  CallName call("cudaMemcpyAsync");
  EXPECT_THAT(silence_after(0.05, [&](Watchdog& w) { w.at("copy", &tensor); }),
              HasSubstr("in phase copy (inside cudaMemcpyAsync), tensor layers"));
  EXPECT_THAT(silence_after(0.05,
                            [&](Watchdog& w) {
                              w.at("copy", &tensor);
                              w.moved(1, 2);
                              w.at("report", nullptr);
                            }),
              HasSubstr("in phase report (inside cudaMemcpyAsync); ending the job"));
}

// The one that is at work is told of before those that wait for it, whoever came to stand still first.
TEST(Watchdog, LetsTheCulpritSpeakFirst) {
  std::promise<std::string> first;
  std::atomic<int> spoken{0};
  auto say = [&](const std::string& message, Status) {
    if (spoken++ == 0) first.set_value(message);
  };
  Watchdog waiting(0.05, say);
  waiting.waiting("fill", nullptr);
  Watchdog culprit(0.05, say);
  culprit.at("copy", nullptr);
  EXPECT_THAT(first.get_future().get(), HasSubstr("in phase copy;"));
  EXPECT_THAT(silence_after(0.01, [](Watchdog& w) { w.waiting("fill", nullptr); }),
              HasSubstr("in phase fill;"));
}

TEST(Watchdog, IsQuietWhileThingsMoveAndAfterItsEnd) {
  std::atomic<int> spoken{0};
  std::uint64_t shown = 0;
  {
    Watchdog watchdog(
        3600, [&](const std::string&, Status) { ++spoken; },
        [&](std::uint64_t done, std::uint64_t total) { shown = done * 100 + total; });
    watchdog.at("read", nullptr);
    watchdog.moved(3, 7);
  }
  EXPECT_EQ(spoken, 0);
  EXPECT_EQ(shown, 307u);
}

TEST(CallName, IsTheInnermostOne) {
  EXPECT_EQ(current_call(), nullptr);
  {
    CallName outer("outer");
    EXPECT_STREQ(current_call(), "outer");
    {
      CallName inner("inner");
      EXPECT_STREQ(current_call(), "inner");
    }
    EXPECT_STREQ(current_call(), "outer");
  }
  EXPECT_EQ(current_call(), nullptr);
}

}  // namespace
}  // namespace slabload
