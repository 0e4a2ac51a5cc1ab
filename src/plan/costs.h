// What reading, sending and copying cost: the numbers that `auto` weighs and that times are foretold with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace slabload {

// Seconds, and bytes per second. What is not given is guessed where a choice has to be made, and left out of bounds.
struct Costs {
  std::optional<double> request_s;        // of one read, besides its bytes
  std::optional<double> filesystem;       // over all ranks
  std::optional<double> filesystem_rank;  // of one rank
  std::optional<double> fabric_rank;      // into one rank
  std::optional<double> message_s;        // of one transfer, besides its bytes
  std::optional<double> memory;           // copies within one rank

  double request() const { return request_s.value_or(0.5e-3); }
  double fs() const { return filesystem.value_or(5e9); }
  double fs_per_rank() const { return filesystem_rank.value_or(1e9); }
  double fabric() const { return fabric_rank.value_or(50e9); }
  double message() const { return message_s.value_or(10e-6); }
  double copy() const { return memory.value_or(10e9); }

  // "request=0.5ms,fs=5GB/s,fs_per_rank=1GB/s,fabric=50GB/s,message=10us,copy=10GB/s", any of them. Throws
  // Status::usage naming the part that is none.
  static Costs parse(const std::string& text);
  // All of them, as parse() takes them.
  std::string text() const;
};

}  // namespace slabload
