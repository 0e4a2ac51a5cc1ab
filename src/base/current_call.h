// The C call that this process is in, and whether it waits for others, for whoever watches from another
// thread (see app/watchdog.h). One thread makes all calls and does all waiting.
#pragma once

#include <atomic>
#include <cstdint>

namespace slabload {

namespace detail {
inline std::atomic<const char*> call_under_way{nullptr};
inline std::atomic<std::uint64_t> calls{0};
inline std::atomic<int> waits{0};
}  // namespace detail

// The name of the call under way; nullptr: none. Callable from any thread.
inline const char* current_call() {
  return detail::call_under_way.load(std::memory_order_relaxed);
}

// Counts calls: as long as it stays the same, current_call() is one and the same call. Callable from any
// thread.
inline std::uint64_t call_number() {
  return detail::calls.load(std::memory_order_relaxed);
}

// True while a WaitsForOthers lives. Callable from any thread.
inline bool waits_for_others() {
  return detail::waits.load(std::memory_order_relaxed) > 0;
}

// For its lifetime this process does nothing but wait for other ranks.
class WaitsForOthers {
 public:
  WaitsForOthers() { detail::waits.fetch_add(1, std::memory_order_relaxed); }
  ~WaitsForOthers() { detail::waits.fetch_sub(1, std::memory_order_relaxed); }
  WaitsForOthers(const WaitsForOthers&) = delete;
  WaitsForOthers& operator=(const WaitsForOthers&) = delete;
};

// For its lifetime the process is in the call `literal` (a string literal).
class CallName {
 public:
  explicit CallName(const char* literal) : outer_(current_call()) {
    detail::calls.fetch_add(1, std::memory_order_relaxed);
    detail::call_under_way.store(literal, std::memory_order_relaxed);
  }
  ~CallName() { detail::call_under_way.store(outer_, std::memory_order_relaxed); }
  CallName(const CallName&) = delete;
  CallName& operator=(const CallName&) = delete;

 private:
  const char* outer_;
};

}  // namespace slabload
