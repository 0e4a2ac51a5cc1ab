// What the ranks of a load or a save agree on between its steps: that all are well, or whose error ends it.
#pragma once

#include <optional>

#include "exec/fill_path.h"

namespace slabload {

// Ranks that have nothing to say to each other still meet every so many rounds, so that one that fails or is stopped does not
// keep the others at work for long.
inline constexpr std::size_t kMeetEvery = 16;

class Agreement {
 public:
  // Both outlive it.
  Agreement(RankRun& run, FillPath& fills) : run_(run), fills_(fills) {}

  // This rank's first failure, until the ranks agree on it. After one this rank only takes part in what others wait for.
  std::optional<Error> failure;

  // True if this rank has failed, or transfers were given up: then there is nothing more to do but agree.
  bool over() const { return failure || fills_.broken(); }

  // Notes an error of this rank, at `tensor` or kNoTensor; another rank's that it only heard of ends the transfers. Leaves
  // the run where the others cannot come to an agreement.
  void note(const Error& error, std::uint32_t tensor);

  // Collective: throws the first failing rank's error on every rank. `what` is for the watchdog.
  void reach(const char* what);

  // What is under way still writes into memory that unwinding frees: waits for it, after reach() has thrown.
  void settle();

 private:
  RankRun& run_;
  FillPath& fills_;
};

}  // namespace slabload
