// Ends the job if this rank stands still: no failure may hang an allocation.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "exec/monitor.h"

namespace slabload {

class Watchdog final : public Monitor {
 public:
  // Batch systems kill 30 s after the signal (Slurm's KillWait); a round that moves takes less than half of it.
  static constexpr double kStopGraceS = 15;
  using Ending = std::function<void(const std::string& message, Status status)>;

  // Calls `on_silence(message, Status::peer)` once, from a thread of its own, if none of the calls below comes for
  // `timeout_s` seconds; for timeout_s * 1.1 + 1 while this rank waits for others (waiting(),
  // base/current_call.h). The message names the phase, the tensor, and the C call that does not return
  // (base/current_call.h). The same, with the signal's status, if `kStopGraceS` (with the same extra while it
  // waits) after a noted stop signal (base/stop_signal.h) this rank is still here. `progress` (may be empty) gets
  // what moved() gets.
  Watchdog(double timeout_s, Ending on_silence, std::function<void(std::uint64_t, std::uint64_t)> progress = {});
  ~Watchdog() override;
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Nothing is passed on to `progress` any more.
  void end_progress() { progress_ = {}; }

  void at(const char* phase, const std::string* tensor) override;
  void waiting(const char* phase, const std::string* tensor) override;
  void moved(std::uint64_t done, std::uint64_t total) override;

 private:
  void enter(const char* phase, const std::string* tensor, bool waits);
  void watch();
  std::string place(const char* call) const;

  const double timeout_s_;
  Ending on_silence_;
  std::function<void(std::uint64_t, std::uint64_t)> progress_;
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<const char*> phase_{"start"};
  std::atomic<const std::string*> tensor_{nullptr};
  std::atomic<bool> waits_{false};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace slabload
