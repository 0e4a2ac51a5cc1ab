// Small collectives between the ranks: decisions, metadata, agreement. Bulk data goes through Fabric.
#pragma once

#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace slabload {

class Control {
 public:
  virtual ~Control() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual const std::string& host() const = 0;

  // Everything below is collective over all ranks of the job and throws Status::peer if the communication
  // fails.
  virtual void barrier() = 0;
  // Returns root's string on every rank; of any size.
  virtual std::string broadcast(std::string bytes, int root = 0) = 0;
  // On rank 0 the strings of all ranks in rank order, elsewhere empty. For small strings.
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;
  // In-place all-reduces, element by element.
  virtual void sum(std::span<std::uint64_t> values) = 0;
  virtual void max(std::span<std::uint64_t> values) = 0;
  virtual void min(std::span<std::uint64_t> values) = 0;
  virtual void bit_xor(std::span<std::uint64_t> values) = 0;

  // The agreement that all are well. A rank that failed passes its error, the others pass nothing. If any
  // rank failed, every rank throws the error of the lowest one that did (agreed() is set); otherwise it
  // returns.
  virtual void agree(const std::optional<Error>& mine) = 0;

  // ---- not collective

  // Tells all other ranks that this one has failed, so that none waits for it in a transfer; each then sees
  // it in alarmed() and goes on to the next agreement, to which this rank brings its error. Returns at once.
  virtual void alarm(const Error& mine) = 0;
  // The alarm of another rank, if one has come (then every time): its error, marked second_hand(). Never
  // blocks; moves MPI along.
  virtual std::optional<Error> alarmed() = 0;
};

// Runs `step` on this rank and agrees on its outcome: no rank goes on if one has failed. Collective.
// A step that ends with another rank's alarm (see alarmed) takes part in the agreement without an error of
// its own.
template <typename Step>
void together(Control& control, Step&& step) {
  std::optional<Error> failure;
  std::optional<Error> alarm;
  try {
    step();
  } catch (const Error& error) {
    if (error.agreed()) throw;  // every rank holds it already and none will come to agree again
    (error.second_hand() ? alarm : failure) = error;
  } catch (const std::bad_alloc&) {
    failure = Error(Status::internal, "out of memory");
  } catch (const std::exception& error) {
    failure = Error(Status::internal, error.what());
  }
  control.agree(failure);
  if (alarm) throw *alarm;
}

// How a wait spends the time between polls.
enum class Pace {
  busy,  // gives way to other processes, but polls at once: what is waited for moves only while it is polled
  patient  // sleeps, briefly at first: something else does the work
};

// Calls poll() until it is true. Throws the alarm of another rank if one comes first. How long is too long is
// the watchdog's to say (see exec/monitor.h).
template <typename Poll>
void wait_until(Control& control, Pace pace, Poll&& poll) {
  for (std::uint64_t turn = 1; !poll(); ++turn) {
    if (turn % 16 == 0) {
      if (std::optional<Error> alarm = control.alarmed()) throw *alarm;
    }
    if (pace == Pace::busy || turn < 64) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(turn < 1024 ? 20 : 200));
    }
  }
}

template <typename Poll>
void wait_until(Control& control, Poll&& poll) {
  wait_until(control, Pace::patient, poll);
}

// Throws the same error on every rank. For a verdict that all ranks have come to alike. Not collective.
[[noreturn]] inline void fail_agreed(Status status, const std::string& message) {
  throw Error(status, message).as_agreed(0);
}

}  // namespace slabload
