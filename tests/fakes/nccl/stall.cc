#include "stall.h"

#include <algorithm>
#include <cstring>

#include "../cuda/hooks.h"
#include "communicator.h"
#include "names.h"
#include "settings.h"

namespace fakenccl {
namespace {

constexpr double longest_pause_s = 0.25;

bool somebody_is_gone(const Communicator& communicator) {
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    const RankBlock& block = communicator.shared().rank(rank);
    const Presence presence = block.presence.load();
    if (presence == Presence::aborted) return true;
    if (presence == Presence::joined && start_time_of(block.pid) != block.start_time) return true;
  }
  return false;
}

std::string state_of(const Communicator& communicator, int rank) {
  const RankBlock& block = communicator.shared().rank(rank);
  const Presence presence = block.presence.load();
  if (presence == Presence::absent) return "has not joined";
  if (presence == Presence::destroyed) return "has destroyed the communicator";
  const std::string waits(block.waits_for, strnlen(block.waits_for, sizeof block.waits_for));
  const std::string counts = text("%llu collectives issued, %llu begun, %llu ended",
                                  static_cast<unsigned long long>(block.issued.load()),
                                  static_cast<unsigned long long>(block.started.load()),
                                  static_cast<unsigned long long>(block.ended.load()));
  return (waits.empty() ? "is not known to wait" : "waits in " + waits) + " (" + counts + ")";
}

[[noreturn]] void report(const Communicator& communicator, double waited_s, const std::string& waits_for) {
  std::string all = text("deadlock: nothing has moved for %.1f s; %s waits in %s", waited_s,
                         communicator.rank_text(communicator.rank()).c_str(), waits_for.c_str());
  for (int rank = 0; rank < communicator.ranks(); ++rank)
    if (rank != communicator.rank())
      all += "; " + communicator.rank_text(rank) + " " + state_of(communicator, rank);
  fakecuda_violation("%s", all.c_str());
}

}  // namespace

void Stall::check(const Communicator& communicator, const std::function<std::string()>& waits_for) {
  const std::uint64_t progress = communicator.root().shared().header().progress.load();
  const Clock::time_point now = Clock::now();
  waited_s_ += std::min(std::chrono::duration<double>(now - last_).count(), longest_pause_s);
  last_ = now;
  if (progress != progress_) {
    progress_ = progress;
    waited_s_ = 0;
    end();
  }
  if (!told_ && waited_s_ > settings().deadlock_s / 2) {
    publish_wait(waits_for());
    told_ = true;
  }
  if (waited_s_ <= settings().deadlock_s) return;
  if (somebody_is_gone(communicator) || somebody_is_gone(communicator.root())) {
    waited_s_ = 0;
    return;
  }
  report(communicator, waited_s_, waits_for());
}

void Stall::end() {
  if (told_) publish_wait("");
  told_ = false;
}

}  // namespace fakenccl
