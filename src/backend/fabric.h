// Moving tensor bytes between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace slabload {

// One set of transfers is gathered with the calls below and started by start(); finish() waits for all of
// them. Sends and receives between a pair of ranks match in the order they were issued; collectives on a
// group match in order. Memory must stay untouched (sent) and unread (received) until finish() returns. At
// most one set is under way.
class Fabric {
 public:
  virtual ~Fabric() = default;

  // Makes the groups that all_gather and broadcast name by their position here. `ranks_of_group[g]` lists the
  // world ranks of this rank's own group for entry g, ascending. Collective over all ranks, once, before any
  // transfer; every rank passes the same number of entries, and at each entry the lists of different ranks
  // are equal or disjoint.
  virtual void make_groups(const std::vector<std::vector<int>>& ranks_of_group) = 0;

  // `data` is a region of `bytes` bytes that every member has; member i holds [i*part, min((i+1)*part,
  // bytes)) and gets the rest, in place. Collective over the group.
  virtual void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) = 0;
  // Root (its position in the group) sends `bytes` bytes to all other members. Collective over the group.
  virtual void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) = 0;
  // Between two world ranks. A single transfer is below 1 GiB.
  virtual void send(int peer, const void* data, std::uint64_t bytes) = 0;
  virtual void receive(int peer, void* data, std::uint64_t bytes) = 0;

  virtual void start() = 0;
  // Moves transfers along without waiting; called between reads.
  virtual void progress() = 0;
  // Waits for every transfer of the set. Throws Status::peer.
  virtual void finish() = 0;

  virtual std::string description() const = 0;
};

}  // namespace slabload
