#include "app/watchdog.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace slabload {

Watchdog::Watchdog(double timeout_s, std::function<void(const std::string&)> on_silence,
                   std::function<void(std::uint64_t, std::uint64_t)> progress)
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

void Watchdog::at(const char* phase, const std::string* tensor) {
  phase_.store(phase, std::memory_order_relaxed);
  tensor_.store(tensor, std::memory_order_relaxed);
  beats_.fetch_add(1, std::memory_order_release);
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
  while (!stop_.wait_for(lock, interval, [this] { return stopping_; })) {
    std::uint64_t now = beats_.load(std::memory_order_acquire);
    if (now != seen) {
      seen = now;
      since = Clock::now();
      continue;
    }
    double silent = std::chrono::duration<double>(Clock::now() - since).count();
    if (silent < timeout_s_) continue;
    const std::string* tensor = tensor_.load();
    on_silence_(fmt::format(
        "no progress for {:.0f} s in phase {}{}; ending the job (--timeout sets how long to wait)", silent,
        phase_.load(), tensor == nullptr ? "" : ", tensor " + printable(*tensor)));
    return;
  }
}

}  // namespace slabload
