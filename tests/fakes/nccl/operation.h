// One all-gather, broadcast, send or receive of this rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../cuda/hooks.h"
#include "communicator.h"
#include "shared.h"

namespace fakenccl {

class Operation {
 public:
  // `peer` is the other end of a send or receive. Sending in place from the wrong place ends the process. The
  // communicator must outlive this.
  Operation(Communicator& communicator, const Signature& signature, int peer, const void* send,
            void* receive);

  // What it reads and writes of this rank's device memory.
  std::vector<FakeAccess> accesses() const;
  const Signature& signature() const { return signature_; }

  // Tells the other ranks of it and compares it with theirs; in the order in which the product issues.
  void issue();
  // The stream has come to it.
  void start();
  // Does what can be done now; true once it has ended.
  bool advance();
  bool ended() const { return to_copy_.empty() && to_serve_.empty(); }
  // Its group has ended.
  void finish();
  // Ends it undone: where data was to come there is rubbish now.
  void give_up();
  // What it waits for, and whom.
  std::string waits_for() const;

 private:
  bool is_collective() const {
    return signature_.kind == Kind::all_gather || signature_.kind == Kind::broadcast;
  }
  bool receives_from(int rank) const;
  bool is_read_by(int rank) const;
  PairSides& pair() const;
  // What this rank shows of it, and what `rank` shows of its part.
  Side& mine() const;
  Side& theirs(int rank) const;
  bool has(const std::atomic<std::uint64_t>& mark) const { return mark.load() > sequence_; }

  void claim_sequence();
  void compare_with(int rank) const;
  std::byte* place_for(int rank) const;
  bool copy_from(int rank);
  std::string sequence_text() const;

  Communicator& communicator_;
  Signature signature_;
  int peer_ = -1;
  const void* send_ = nullptr;
  void* receive_ = nullptr;
  std::uint64_t bytes_ = 0;  // of one rank's part
  std::uint64_t sequence_ = 0;
  std::vector<int> to_copy_;   // ranks whose data has not come yet
  std::vector<int> to_serve_;  // ranks that have not read this rank's data yet
};

}  // namespace fakenccl
