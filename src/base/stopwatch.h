// Wall time of one process, monotonic.
#pragma once

#include <chrono>

namespace slabload {

// Seconds on this host's monotonic clock, from a start that all processes of the host share.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Stopwatch {
 public:
  Stopwatch() : start_(Clock::now()) {}
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  // Seconds since the start or the last lap, and starts the next lap.
  double lap() {
    auto now = Clock::now();
    double passed = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return passed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

// Adds the time of its scope to a sum in seconds.
class ScopedTimer {
 public:
  explicit ScopedTimer(double& sum) : sum_(sum) {}
  ~ScopedTimer() { sum_ += watch_.seconds(); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  Stopwatch watch_;
  double& sum_;
};

}  // namespace slabload
