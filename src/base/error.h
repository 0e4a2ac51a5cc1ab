// The one error type of the program: a status that becomes the exit status, and one line for the user.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

namespace slabload {

// The exit status of the process, the same on every rank.
enum class Status : int {
  ok = 0,
  wrong_data = 1,  // a checksum or comparison found a difference
  usage = 2,       // bad command line, layout or mesh; a plan that does not fit
  file = 3,        // a file cannot be read, understood or written
  peer = 4,        // another rank or the fabric failed
  internal = 5,    // a broken promise of our own code
  interrupted = 128 + 2,  // SIGINT asked for the end
  terminated = 128 + 15,  // SIGTERM did, as batch systems do when the time is up
};

// One failure, one line: what happened, where, and what to do. `what()` is that line.
// `agreed` is set once every rank holds the same error (see Control::agree): the job may then end in
// order; an error that is not agreed on is known to one rank only and needs an abort.
class Error : public std::exception {
 public:
  Error(Status status, std::string message) : status_(status), message_(std::move(message)) {}

  const char* what() const noexcept override { return message_.c_str(); }
  Status status() const { return status_; }
  const std::string& message() const { return message_; }
  bool agreed() const { return agreed_; }
  bool second_hand() const { return second_hand_; }
  int rank() const { return rank_; }

  // The same error, now held by all ranks; `rank` is the one it happened on.
  Error as_agreed(int rank) const {
    Error copy = *this;
    copy.agreed_ = true;
    copy.rank_ = rank;
    return copy;
  }
  // The same error as another rank's, `rank`, that was heard of but not agreed on.
  Error as_second_hand(int rank) const {
    Error copy = *this;
    copy.second_hand_ = true;
    copy.rank_ = rank;
    return copy;
  }

 private:
  Status status_;
  std::string message_;
  bool agreed_ = false;
  bool second_hand_ = false;
  int rank_ = -1;
};

// Throws an Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

// The text of an errno value, for messages.
std::string errno_text(int code);

// A name as it may be shown on one line of a terminal: control characters and broken bytes become \xNN.
std::string printable(std::string_view text);

}  // namespace slabload
