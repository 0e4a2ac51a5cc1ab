#include "app/watchdog.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/current_call.h"
#include "base/error.h"
#include "base/stop_signal.h"

namespace slabload {

Watchdog::Watchdog(double timeout_s, Ending on_silence, std::function<void(std::uint64_t, std::uint64_t)> progress)
    : timeout_s_(timeout_s),
      on_silence_(std::move(on_silence)),
      progress_(std::move(progress)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void Watchdog::enter(const char* phase, const std::string* tensor, bool waits) {
  phase_.store(phase, std::memory_order_relaxed);
  tensor_.store(tensor, std::memory_order_relaxed);
  waits_.store(waits, std::memory_order_relaxed);
  beats_.fetch_add(1, std::memory_order_release);
}

void Watchdog::at(const char* phase, const std::string* tensor) {
  enter(phase, tensor, false);
}

void Watchdog::waiting(const char* phase, const std::string* tensor) {
  enter(phase, tensor, true);
}

void Watchdog::moved(std::uint64_t done, std::uint64_t total) {
  beats_.fetch_add(1, std::memory_order_release);
  if (progress_) progress_(done, total);
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock<std::mutex> lock(mutex_);
  std::uint64_t seen = beats_.load();
  auto since = Clock::now();
  auto interval = std::chrono::duration<double>(std::clamp(timeout_s_ / 8, 0.01, 1.0));
  std::uint64_t last_call = call_number();
  std::optional<Clock::time_point> stop_since;
  auto seconds_from = [](Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (!stop_.wait_for(lock, interval, [this] { return stopping_; })) {
    // Whoever is inside a call does not wait for others, whatever the phase is called; polls are calls too,
    // but short ones.
    const std::uint64_t call = call_number();
    const bool inside = current_call() != nullptr && call == std::exchange(last_call, call);
    const char* stuck_in = inside ? current_call() : nullptr;
    const bool waits = !inside && (waits_.load() || waits_for_others());
    const auto patience = [&](double seconds) { return waits ? seconds * 1.1 + 1 : seconds; };
    if (const std::optional<Error> wish = stop_wish("")) {
      if (!stop_since) stop_since = Clock::now();
      if (seconds_from(*stop_since) > patience(kStopGraceS)) {
        on_silence_(fmt::format("{}no step has come to its end for {:.0f} s, in phase {}", wish->message(), kStopGraceS,
                                place(stuck_in)),
                    wish->status());
        return;
      }
    }
    std::uint64_t now = beats_.load(std::memory_order_acquire);
    if (now != seen) {
      seen = now;
      since = Clock::now();
      continue;
    }
    const double silent = seconds_from(since);
    if (silent < patience(timeout_s_)) continue;
    on_silence_(fmt::format("no progress for {:.0f} s in phase {}; ending the job (--timeout sets how long to wait)", silent,
                            place(stuck_in)),
                Status::peer);
    return;
  }
}

std::string Watchdog::place(const char* call) const {
  const std::string* tensor = tensor_.load();
  return fmt::format("{}{}{}", phase_.load(), call == nullptr ? "" : fmt::format(" (inside {})", call),
                     tensor == nullptr ? "" : ", tensor " + printable(*tensor));
}

}  // namespace slabload
