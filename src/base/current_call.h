// The C call that this process is in, for whoever watches from another thread (see app/watchdog.h).
#pragma once

#include <atomic>

namespace slabload {

namespace detail {
inline std::atomic<const char*> call_under_way{nullptr};
}  // namespace detail

// The name of the call under way; nullptr: none. Callable from any thread.
inline const char* current_call() {
  return detail::call_under_way.load(std::memory_order_relaxed);
}

// For its lifetime the process is in the call `literal` (a string literal). One thread makes all these calls.
class CallName {
 public:
  explicit CallName(const char* literal) : outer_(current_call()) {
    detail::call_under_way.store(literal, std::memory_order_relaxed);
  }
  ~CallName() { detail::call_under_way.store(outer_, std::memory_order_relaxed); }
  CallName(const CallName&) = delete;
  CallName& operator=(const CallName&) = delete;

 private:
  const char* outer_;
};

}  // namespace slabload
