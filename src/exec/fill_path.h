// The way of bytes between ranks: packing, transfers, unpacking, and what happens when one breaks.
#pragma once

#include <deque>

#include "exec/rank_run.h"

namespace slabload {

class FillPath {
 public:
  // `run` outlives it.
  explicit FillPath(RankRun& run) : run_(run) {}

  // The groups and peers of the plan, ready for transfers. Collective; to be run inside together().
  void connect();

  // Puts the copies that come before a round's transfers into the device's queue and starts the transfers.
  // All ranks that take part have agreed that they are well. Errors end in broken().
  void start(const Round& round, std::size_t number);

  // Waits for the transfers of the oldest round that has not been finished, and spreads out what has come.
  void finish_oldest();
  std::size_t under_way() const { return open_.size(); }

  // Waits for all of them.
  void finish_all();

  // Once all ranks have agreed to end: gives all transfers up or, if the fabric cannot, waits for them, which
  // then end on all ranks. Afterwards nothing is written to any more.
  void end();

  // Nothing moves any more: another rank raised an alarm, or this rank did for the error below.
  bool broken() const { return broken_; }
  const std::optional<Error>& failure() const { return failure_; }

  // Gives up all transfers, and tells the others why unless it is they who told. Throws `cause` if the fabric
  // cannot give up: then the job has to be ended.
  void break_off(const Error& cause);

 private:
  struct OpenRound {
    const Round* round;
    std::size_t number;
    std::optional<Fabric::Ticket> ticket;
  };
  void issue(const Round& round, std::size_t number);
  void copy(const std::vector<CopyItem>& copies, std::size_t number);
  void wait_for(const OpenRound& open);

  RankRun& run_;
  std::deque<OpenRound> open_;
  bool broken_ = false;
  std::optional<Error> failure_;
};

}  // namespace slabload
