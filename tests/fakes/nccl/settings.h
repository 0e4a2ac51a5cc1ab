// What the environment asks of the double; read once, at the first call.
#pragma once

#include <cstdint>

namespace fakenccl {

struct Settings {
  int version = 0;             // what ncclGetVersion says on this rank
  std::uint64_t memory = 0;    // bytes of the device that a communicator takes
  double deadlock_s = 0;       // without progress
  std::uint64_t host = 0;      // equal on ranks that NCCL takes to be on one machine
  bool leaks_allowed = false;  // communicators may be left at exit
  bool abort_fails = false;    // ncclCommAbort gives an error after one of CUDA that has ended its context
};

const Settings& settings();

}  // namespace fakenccl
