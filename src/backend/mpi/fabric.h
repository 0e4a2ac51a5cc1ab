// Fabric over MPI: non-blocking transfers between host memories.
#pragma once

#include <deque>

#include "backend/fabric.h"
#include "backend/mpi/comm.h"

namespace slabload::mpi {

class MpiFabric final : public Fabric {
 public:
  // Uses its own duplicate of `parent`. Collective over parent.
  explicit MpiFabric(MPI_Comm parent);
  ~MpiFabric() override;

  void make_groups(const std::vector<std::vector<int>>& ranks_of_group) override;
  void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) override;
  void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) override;
  void send(int peer, const void* data, std::uint64_t bytes) override;
  void receive(int peer, void* data, std::uint64_t bytes) override;
  void start() override {}  // every transfer starts when it is issued
  void progress() override;
  void finish() override;
  std::string description() const override { return "mpi"; }

 private:
  // The counts of a non-blocking all-gather belong to MPI until it has finished.
  struct GatherCounts {
    std::vector<int> counts;
    std::vector<int> offsets;
  };
  MPI_Request* next_request();

  Comm world_;
  std::vector<Comm> groups_;  // an entry without a communicator has this rank alone
  std::vector<MPI_Request> requests_;
  std::deque<GatherCounts> counts_;
};

}  // namespace slabload::mpi
