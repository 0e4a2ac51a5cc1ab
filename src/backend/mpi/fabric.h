// Fabric over MPI: non-blocking transfers between host memories.
#pragma once

#include <deque>

#include "backend/fabric.h"
#include "backend/mpi/comm.h"

namespace slabload::mpi {

// For a device whose queue runs at once (HostDevice): start() waits for no other. A span ends when finished()
// finds it.
class MpiFabric final : public Fabric {
 public:
  // Uses its own duplicate of `parent`. Collective over parent.
  explicit MpiFabric(MPI_Comm parent);

  void connect(const std::vector<std::vector<int>>& ranks_of_group, const std::vector<int>& peers) override;
  void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) override;
  void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) override;
  void send(int peer, const void* data, std::uint64_t bytes) override;
  void receive(int peer, void* data, std::uint64_t bytes) override;
  Ticket start() override;
  void progress() override;
  std::optional<Span> finished(Ticket ticket) override;
  // MPI can't take back what has begun.
  bool abort() noexcept override { return false; }
  std::uint64_t own_bytes() const override { return 0; }
  std::string description() const override { return "mpi"; }

 private:
  struct Transfer {
    enum class Kind { all_gather, broadcast, send, receive } kind;
    MPI_Comm comm;
    int peer;  // broadcast: the root
    void* data;
    std::uint64_t bytes;
    std::uint64_t part;
  };
  // The counts of a non-blocking all-gather belong to MPI until it has finished.
  struct GatherCounts {
    std::vector<int> counts;
    std::vector<int> offsets;
  };
  struct Set {
    double begin_s = 0;
    std::vector<MPI_Request> requests;
    std::deque<GatherCounts> counts;
  };
  static void issue(const Transfer& transfer, Set& set);

  Comm world_;
  std::vector<Comm> groups_;  // an entry without a communicator has this rank alone
  std::vector<Transfer> gathered_;
  std::deque<Set> under_way_;
  Ticket oldest_ = 0;  // the ticket of under_way_.front()
};

}  // namespace slabload::mpi
