#include "base/stop_signal.h"

#include <csignal>

namespace slabload {
namespace {

volatile std::sig_atomic_t g_signal = 0;

void note(int signal) {
  g_signal = signal;
}

}  // namespace

void note_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  // System calls under way go on; the second signal is the system's own.
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

std::optional<Error> stop_wish(std::string_view done) {
  const int signal = g_signal;
  if (signal == 0) return std::nullopt;
  const bool terminated = signal == SIGTERM;
  return Error(terminated ? Status::terminated : Status::interrupted,
               fmt::format("stopped by {}; {}", terminated ? "SIGTERM" : "SIGINT", done));
}

void check_stop(std::string_view done) {
  if (std::optional<Error> wish = stop_wish(done)) throw *wish;
}

}  // namespace slabload
