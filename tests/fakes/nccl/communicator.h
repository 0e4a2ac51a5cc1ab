// One rank's end of a communicator.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared.h"
#include "stall.h"

namespace fakenccl {

// The communicators that share resources: one abort stops them all.
struct Family {
  bool stopped = false;
};

struct Options {
  bool blocking = true;
  bool split_share = false;
};

// A piece of work that needs the other ranks: nothing until it has ended. Never blocks.
using Work = std::function<std::optional<ncclResult_t>()>;

class Communicator {
 public:
  // `parent` is null but for a split.
  Communicator(int ranks, int rank, Options options, std::shared_ptr<Communicator> parent);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  const Options& options() const { return options_; }
  const Shared& shared() const { return shared_; }
  RankBlock& own() const { return shared_.rank(rank_); }
  // The communicator that this one was split from in the end, or itself.
  const Communicator& root() const { return parent_ ? parent_->root() : *this; }
  // By which messages tell communicators apart; the same on all ranks.
  std::string name() const;
  // "rank 1 of 4 (world rank 3)".
  std::string rank_text(int rank) const;

  // Takes the device memory that a communicator needs.
  ncclResult_t charge();
  void release();
  // Enters the communicator that `file` stands for.
  ncclResult_t join(const FileName& file);
  // Nothing until all ranks are in; then whether they may form a communicator.
  std::optional<ncclResult_t> all_joined();
  std::string missing_ranks() const;

  // Does the work: to its end for a blocking communicator, in later calls of poll() otherwise. `waits_for` is
  // for reports.
  ncclResult_t begin(Work work, std::function<std::string()> waits_for);
  ncclResult_t poll();
  bool in_progress() const { return static_cast<bool>(work_); }
  ncclResult_t error() const { return error_; }
  void set_error(ncclResult_t error) { error_ = error; }

  void finalize() { finalized_ = true; }
  bool finalized() const { return finalized_; }
  // Ends the whole family's pending operations; the other ranks are not told.
  void abort();
  bool stopped() const { return family_->stopped; }
  void leave(Presence presence) const;

  void note_progress() const;

  std::uint64_t next_collective = 0;
  std::vector<std::uint64_t> next_send;  // by peer
  std::vector<std::uint64_t> next_receive;
  std::uint64_t next_split = 0;
  int pending = 0;  // groups that are in a stream and have not ended

 private:
  std::optional<ncclResult_t> try_work();
  ncclResult_t check_peers() const;
  void close_own_file();

  const int ranks_;
  const int rank_;
  const int device_;
  const Options options_;
  const std::shared_ptr<Communicator> parent_;
  std::shared_ptr<Family> family_;
  Shared shared_;
  bool attached_ = false;
  std::optional<FileName> file_;  // until all ranks have opened it
  std::uint64_t charged_ = 0;
  Work work_;
  std::function<std::string()> waits_for_;
  int answers_left_ = 0;  // "in progress" that poll() still gives before it looks
  Stall stall_;
  ncclResult_t error_ = ncclSuccess;
  bool finalized_ = false;
};

// Tells all ranks that this process has communicators with what it waits for; empty: for nothing.
void publish_wait(const std::string& waits_for);

}  // namespace fakenccl
