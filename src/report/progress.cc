#include "report/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "base/stopwatch.h"

namespace slabload {

std::string format_duration(double seconds) {
  auto whole = static_cast<std::uint64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(std::FILE* out, std::string label, bool terminal, double interval_s, Seconds clock)
    : out_(out),
      label_(std::move(label)),
      terminal_(terminal),
      interval_s_(terminal ? 0.1 : interval_s),
      clock_(std::move(clock)),
      start_s_(clock_()),
      last_s_(start_s_) {}

Progress::Progress(std::FILE* out, std::string label, bool terminal, double interval_s)
    : Progress(out, std::move(label), terminal, interval_s,
               [watch = Stopwatch()] { return watch.seconds(); }) {}

Progress::Progress(std::string label) : Progress(stderr, std::move(label), isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && shown_ && !finished_) std::fputc('\n', out_);
}

Progress& Progress::counting(std::string unit) {
  unit_ = std::move(unit);
  return *this;
}

std::string Progress::amount(std::uint64_t value) const {
  return unit_.empty() ? format_bytes(value) : fmt::format("{} {}", value, unit_);
}

void Progress::update(std::uint64_t done, std::uint64_t total) {
  done_ = done;
  total_ = total;
  if (finished_) return;
  double now = clock_();
  if (now - last_s_ < interval_s_) return;
  show(now);
}

void Progress::finish() {
  if (finished_) return;
  if (terminal_ || shown_) show(clock_());
  if (terminal_) {
    std::fputc('\n', out_);
    std::fflush(out_);
  }
  finished_ = true;
}

void Progress::show(double now) {
  last_s_ = now;
  shown_ = true;
  double seconds = now - start_s_;
  double share = total_ == 0 ? 1 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  double remaining = total_ > done_ ? static_cast<double>(total_ - done_) : 0;
  std::string left = remaining == 0 ? fmt::format("in {}", format_duration(seconds))
                     : rate > 0     ? format_duration(remaining / rate) + " left"
                                    : "time left unknown";
  std::string text = fmt::format("{} of {}, {}/s, {}", amount(done_), amount(total_),
                                 amount(static_cast<std::uint64_t>(rate)), left);
  auto percent = static_cast<int>(share * 100);
  if (!terminal_) {
    fmt::print(out_, "{}: {}%, {}\n", label_, percent, text);
    std::fflush(out_);
    return;
  }
  constexpr std::size_t kCells = 30;
  auto full = static_cast<std::size_t>(share * kCells);
  std::string line = fmt::format("{} [{}{}] {:>3}%  {}", label_, std::string(full, '#'),
                                 std::string(kCells - full, '.'), percent, text);
  std::size_t width = line.size();
  if (width < width_) line.append(width_ - width, ' ');  // wipe what a longer line left
  width_ = width;
  fmt::print(out_, "\r{}", line);
  std::fflush(out_);
}

}  // namespace slabload
