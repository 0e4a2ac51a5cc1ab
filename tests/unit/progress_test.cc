// Progress with a clock that the test moves.
#include "report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace slabload {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A stream into memory.
class Output {
 public:
  Output() : file_(open_memstream(&data_, &size_)) {}
  ~Output() {
    std::fclose(file_);
    std::free(data_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {data_, size_};
  }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

TEST(Progress, CountsOtherThingsThanBytes) {
  Output out;
  double now = 0;
  Progress progress(out.file(), "plan", false, 5, [&] { return now; });
  progress.counting("ranks");
  now = 10;
  progress.update(2500, 10000);
  EXPECT_EQ(out.text(), "plan: 25%, 2500 ranks of 10000 ranks, 250 ranks/s, 30 s left\n");
}

TEST(Progress, WritesALineEveryFewSeconds) {
  Output out;
  double now = 100;
  Progress progress(out.file(), "load", false, 5, [&] { return now; });
  for (int i = 0; i <= 49; ++i) {
    now = 100 + 0.1 * i;
    progress.update(10000000, 100000000);
  }
  EXPECT_EQ(out.text(), "");
  now = 105;
  progress.update(25000000, 100000000);
  EXPECT_EQ(out.text(), "load: 25%, 25.00 MB of 100.0 MB, 5.000 MB/s, 15 s left\n");
  now = 109;
  progress.update(50000000, 100000000);
  EXPECT_EQ(out.text(), "load: 25%, 25.00 MB of 100.0 MB, 5.000 MB/s, 15 s left\n");
  now = 110;
  progress.update(100000000, 100000000);
  progress.finish();
  progress.finish();
  progress.update(1, 2);
  std::string text = out.text();
  EXPECT_TRUE(text.ends_with("load: 100%, 100.0 MB of 100.0 MB, 10.00 MB/s, in 10 s\n")) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, AShortStepSaysNothingOffATerminal) {
  Output out;
  double now = 0;
  Progress progress(out.file(), "load", false, 5, [&] { return now; });
  now = 1;
  progress.update(50, 50);
  progress.finish();
  EXPECT_EQ(out.text(), "");
}

TEST(Progress, DrawsOneBarOnATerminal) {
  Output out;
  double now = 0;
  Progress progress(out.file(), "load", true, 5, [&] { return now; });
  progress.update(1, 1000);  // too soon
  EXPECT_EQ(out.text(), "");
  now = 10;
  progress.update(500000000, 1000000000);
  std::string first = out.text();
  EXPECT_EQ(first,
            "\rload [###############...............]  50%  500.0 MB of 1.000 GB, 50.00 MB/s, 10 s left");
  now = 20;
  progress.update(1000000000, 1000000000);
  progress.finish();
  std::string text = out.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_THAT(
      text,
      HasSubstr("\rload [##############################] 100%  1.000 GB of 1.000 GB, 50.00 MB/s, in 20 s"));
}

TEST(Progress, AShorterLineWipesTheLongerOne) {
  Output out;
  double now = 0;
  Progress progress(out.file(), "x", true, 5, [&] { return now; });
  now = 1000;
  progress.update(1, 1000000);
  std::size_t long_line = out.text().size();
  now = 1001;
  progress.update(1000000, 1000000);
  std::string text = out.text();
  EXPECT_GE(text.size() - long_line, long_line);
}

TEST(Progress, AnErrorStartsOnItsOwnLine) {
  Output out;
  double now = 0;
  {
    Progress progress(out.file(), "load", true, 5, [&] { return now; });
    now = 1;
    progress.update(1, 2);
  }
  EXPECT_EQ(out.text().back(), '\n');
}

TEST(Progress, OddTotalsGiveNoOddNumbers) {
  Output out;
  double now = 0;
  Progress progress(out.file(), "load", false, 5, [&] { return now; });
  now = 5;
  progress.update(0, 0);
  now = 10;
  progress.update(0, 100);
  now = 15;
  progress.update(200, 100);
  std::string text = out.text();
  EXPECT_THAT(text, HasSubstr("load: 0%, 0 B of 100 B, 0 B/s, time left unknown\n"));
  EXPECT_THAT(text, HasSubstr("load: 100%, 200 B of 100 B"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
}

TEST(Progress, FormatsDurations) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1 min 00 s");
  EXPECT_EQ(format_duration(185), "3 min 05 s");
  EXPECT_EQ(format_duration(7620), "2 h 07 min");
  EXPECT_EQ(format_duration(-1), "0 s");
}

}  // namespace
}  // namespace slabload
