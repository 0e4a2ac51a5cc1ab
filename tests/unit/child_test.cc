// Work done by another process: what it makes comes back, and however it ends, that is an error of one line.
#include "backend/host/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <stdexcept>

#include "base/error.h"
#include "unit/thrown_error.h"

namespace slabload::host {
namespace {

using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const ChildLimits kSmall{5, 256 << 20};

Error error_of(const MakeBytes& make, const ChildLimits& limits = kSmall) {
  return thrown_error([&] { from_copy(make, limits, "file 'x': reading its structure"); });
}

// No child is left, running or unwaited for.
void expect_no_child() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Child, SendsWhatItMade) {
  EXPECT_EQ(from_copy([] { return std::string(); }, kSmall, "x"), "");
  EXPECT_EQ(from_copy([] { return std::string("a\0b", 3); }, kSmall, "x"), std::string("a\0b", 3));
  // More than a pipe holds.
  std::string large(5'000'000, 'l');
  EXPECT_EQ(from_copy([&] { return large; }, kSmall, "x"), large);
  expect_no_child();
}

TEST(Child, ChangesNothingHere) {
  int value = 1;
  from_copy(
      [&] {
        value = 2;
        return std::string();
      },
      kSmall, "x");
  EXPECT_EQ(value, 1);
}

TEST(Child, PassesItsErrorOn) {
  for (Status status : {Status::wrong_data, Status::usage, Status::file, Status::internal}) {
    Error error = error_of([&]() -> std::string { throw Error(status, "held by a writer"); });
    EXPECT_EQ(error.status(), status);
    EXPECT_EQ(error.message(), "held by a writer");
  }
  Error error = error_of([]() -> std::string { throw std::runtime_error("odd"); });
  EXPECT_EQ(error.status(), Status::internal);
  EXPECT_EQ(error.message(), "odd");
  expect_no_child();
}

TEST(Child, ACrashIsAnErrorThatNamesTheFile) {
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
    Error error = error_of([&]() -> std::string {
      raise(signal);
      return "";
    });
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_THAT(error.message(), AllOf(StartsWith("file 'x': reading its structure crashed (signal " +
                                                  std::to_string(signal) + ", "),
                                       HasSubstr("damaged or hostile")));
  }
  expect_no_child();
}

TEST(Child, AnEndWithoutAnAnswerIsAnError) {
  EXPECT_THAT(error_of([]() -> std::string { _exit(7); }).message(), HasSubstr("ended with status 7"));
  EXPECT_THAT(error_of([]() -> std::string {
                raise(SIGKILL);
                return "";
              }).message(),
              HasSubstr("was killed (signal 9)"));
  expect_no_child();
}

TEST(Child, AHangIsEnded) {
  auto begin = std::chrono::steady_clock::now();
  Error error = error_of(
      []() -> std::string {
        for (;;) pause();
      },
      {0.2, 1 << 20});
  EXPECT_EQ(error.status(), Status::file);
  EXPECT_THAT(error.message(), HasSubstr("did not end within 0.2 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  expect_no_child();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which allow no limit on memory
TEST(Child, HungerForMemoryIsAnError) {
  Error error = error_of([] { return std::string(std::size_t{1} << 40, 'x'); });
  EXPECT_EQ(error.status(), Status::file);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("needs more than"), HasSubstr("of memory")));
  expect_no_child();
}
#endif

}  // namespace
}  // namespace slabload::host
