// Notices that another rank of this node has ended without a word: neither MPI nor NCCL says so, and a
// launcher that started the rank through a script may not know it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backend/host/lifeline.h"

namespace slabload {

struct Peer {
  std::int32_t rank = 0;
  host::Lifeline::Address address;
};

// How long an end is looked at before it is called a death.
struct PeerPatience {
  // For a launcher that ends all ranks, this one a moment later.
  double launcher_s = 1.0;
  // Then the nearest neighbour speaks; each further one waits this much longer, at most three times.
  double turn_s = 0.25;
  // For a rank that has said that it ends the job.
  double speaker_s = 3.0;
};

class PeerWatch {
 public:
  // Watches `peers` (see neighbours) from a thread of its own; those who can't be reached are left out. Calls
  // `on_death` once, from that thread, with the line to say; with an empty one if another rank has said
  // already why the job ends. `line` is this rank's own, whose address the peers have.
  PeerWatch(host::Lifeline line, const std::vector<Peer>& peers, std::string host,
            std::function<void(const std::string&)> on_death, PeerPatience patience = {});
  // Leaves in order: from here on this rank may end.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // This rank is about to end the job and says why itself. Callable from any thread.
  void ends_the_job() noexcept { line_.say(host::LastWord::ends_the_job); }
  // Another one is, or was. Callable from any thread.
  bool another_ends_the_job() const;

 private:
  struct Watched {
    int rank;
    host::Lifeline line;
  };

  void watch();
  bool told_to_stop_within(double seconds) const;
  void report(std::size_t dead);

  host::Lifeline line_;
  std::vector<Watched> peers_;
  std::string host_;
  std::function<void(const std::string&)> on_death_;
  PeerPatience patience_;
  std::thread thread_;
};

// Whom the rank at `position` of a node watches, the nearest first: the 64 that follow it in a ring of all,
// so that everyone is watched by somebody.
std::vector<Peer> neighbours(const std::vector<Peer>& node, std::size_t position);

}  // namespace slabload
