#include "app/peer_watch.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>

namespace slabload {

PeerWatch::PeerWatch(host::Lifeline line, const std::vector<Peer>& peers, std::string host,
                     std::function<void(const std::string&)> on_death, PeerPatience patience)
    : line_(std::move(line)), host_(std::move(host)), on_death_(std::move(on_death)), patience_(patience) {
  if (!line_.open()) return;
  for (const Peer& peer : peers) {
    host::Lifeline theirs(peer.address);
    if (theirs.open()) peers_.push_back({peer.rank, std::move(theirs)});
  }
  if (!peers_.empty()) thread_ = std::thread([this] { watch(); });
}

PeerWatch::~PeerWatch() {
  line_.say(host::LastWord::leaves);
  if (thread_.joinable()) thread_.join();
}

// What this rank itself says on its line stops its thread.
bool PeerWatch::told_to_stop_within(double seconds) const {
  pollfd own{line_.descriptor(), POLLIN, 0};
  // A signal handled by this thread only makes the wait shorter.
  return poll(&own, 1, static_cast<int>(seconds * 1000)) > 0;
}

bool PeerWatch::another_ends_the_job() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Watched& peer) {
    return peer.line.last_word() == host::LastWord::ends_the_job;
  });
}

void PeerWatch::watch() {
  std::vector<pollfd> polled{{line_.descriptor(), POLLIN, 0}};
  for (const Watched& peer : peers_) polled.push_back({peer.line.descriptor(), 0, 0});
  for (;;) {
    int ready = poll(polled.data(), polled.size(), -1);
    if (polled[0].revents != 0) return;
    for (std::size_t i = 1; ready > 0 && i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      // An end shows after all that the peer has said.
      if (peers_[i - 1].line.last_word() != host::LastWord::leaves) return report(i - 1);
      polled[i].fd = -1;
    }
  }
}

void PeerWatch::report(std::size_t dead) {
  auto turns = static_cast<double>(std::min<std::size_t>(dead, 3));
  if (told_to_stop_within(patience_.launcher_s + turns * patience_.turn_s)) return;
  const Watched& peer = peers_[dead];
  std::string message = fmt::format("rank {} (process {} on {}) has ended without a word; ending the job",
                                    peer.rank, peer.line.address().process, host_);
  if (another_ends_the_job()) {
    if (told_to_stop_within(patience_.speaker_s)) return;
    message.clear();
  }
  ends_the_job();
  on_death_(message);
}

std::vector<Peer> neighbours(const std::vector<Peer>& node, std::size_t position) {
  constexpr std::size_t kMost = 64;
  std::vector<Peer> out;
  for (std::size_t i = 1; i < node.size() && out.size() < kMost; ++i)
    out.push_back(node[(position + i) % node.size()]);
  return out;
}

}  // namespace slabload
