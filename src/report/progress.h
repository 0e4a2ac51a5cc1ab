// How far a long step is: a bar on a terminal, a line every few seconds elsewhere. One rank makes one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace slabload {

class Progress {
 public:
  using Seconds = std::function<double()>;  // a monotonic clock

  // Writes to `out` (not owned; stderr as a rule). `label` is what goes on: "load", "generate". On a terminal
  // the bar is redrawn ten times a second, elsewhere a line is written every `interval_s` seconds.
  Progress(std::FILE* out, std::string label, bool terminal, double interval_s = 5);
  Progress(std::FILE* out, std::string label, bool terminal, double interval_s, Seconds clock);
  // Writes to stderr, as a bar if that is a terminal.
  explicit Progress(std::string label);
  // Counts other things than bytes, such as "ranks".
  Progress& counting(std::string unit);
  // Ends an unfinished bar's line, so that an error message starts on its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Bytes (or what is counted) done of all so far. Cheap: most calls only look at the clock.
  void update(std::uint64_t done, std::uint64_t total);
  // The last state, and the end of the bar's line. Further calls do nothing. A step that ended before the
  // first line was due writes nothing when not on a terminal.
  void finish();

 private:
  void show(double now);
  std::string amount(std::uint64_t value) const;

  std::FILE* out_;
  std::string label_;
  std::string unit_{};  // empty: bytes
  bool terminal_;
  double interval_s_;
  Seconds clock_;
  double start_s_;
  double last_s_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::size_t width_ = 0;  // of the line shown last, to wipe it
  bool shown_ = false;
  bool finished_ = false;
};

// "4 s", "3 min 05 s", "2 h 07 min".
std::string format_duration(double seconds);

}  // namespace slabload
