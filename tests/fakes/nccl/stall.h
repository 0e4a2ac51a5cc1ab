// Ends the process that waits in vain.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace fakenccl {

class Communicator;

// Watches one wait. Only time in which the caller really asks again and again counts: a rank that reads a
// file for a minute has not waited.
class Stall {
 public:
  // To be called at each attempt that did not end the wait. If nothing has moved in the communicator, nor in
  // any that is split from the same one, for SLABLOAD_FAKE_DEADLOCK_S, and all its processes live and none
  // has aborted, a report of who waits for what ends the process.
  void check(const Communicator& communicator, const std::function<std::string()>& waits_for);
  // The wait is over.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  double waited_s_ = 0;
  std::uint64_t progress_ = 0;
  bool told_ = false;
};

}  // namespace fakenccl
