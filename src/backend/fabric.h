// Moving tensor bytes between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace slabload {

// When something was under way, in seconds as now_s() counts (base/stopwatch.h).
struct Span {
  double begin_s = 0;
  double end_s = 0;
};

// One set of transfers is gathered with the calls below and started by start(). Sends and receives between a
// pair of ranks match in the order they were issued; collectives on a group match in order. Memory must stay
// untouched (sent) and unread (received) until finished() says that the set has ended. Several sets may be
// under way.
class Fabric {
 public:
  virtual ~Fabric() = default;

  using Ticket = std::uint64_t;

  // Makes the groups that all_gather and broadcast name by their position here, and connects to `peers`
  // (world ranks, ascending; without this rank), which send and receive may name. `ranks_of_group[g]` lists
  // the world ranks of this rank's own group for entry g, ascending. Collective over all ranks, once, before
  // any transfer; every rank passes the same number of entries, and at each entry the lists of different
  // ranks are equal or disjoint; if a rank lists a peer, that peer lists it. What a first transfer would cost
  // is paid here.
  virtual void connect(const std::vector<std::vector<int>>& ranks_of_group,
                       const std::vector<int>& peers) = 0;

  // `data` is a region of `bytes` bytes that every member has; member i holds [i*part, min((i+1)*part,
  // bytes)) and gets the rest, in place. Collective over the group.
  virtual void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) = 0;
  // Root (its position in the group) sends `bytes` bytes to all other members. Collective over the group.
  virtual void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) = 0;
  // Between two world ranks. A single transfer is below 1 GiB.
  virtual void send(int peer, const void* data, std::uint64_t bytes) = 0;
  virtual void receive(int peer, void* data, std::uint64_t bytes) = 0;

  // Starts the set gathered since the last start, behind everything that the device's queue holds by now.
  virtual Ticket start() = 0;
  // Moves transfers along without waiting; called between reads.
  virtual void progress() = 0;
  // Nothing until every transfer of the set has ended, then when it was under way. Never blocks; asked in the
  // order of the tickets, and not again after it has answered. Throws Status::peer if a transfer failed.
  virtual std::optional<Span> finished(Ticket ticket) = 0;

  // Gives up all transfers, here and now, so that nothing waits for another rank any more; only the
  // destructor may follow. False if this fabric cannot: then the job has to be ended.
  virtual bool abort() noexcept = 0;

  // Device memory that the fabric itself takes, as measured; 0 if none.
  virtual std::uint64_t own_bytes() const = 0;
  // "mpi", "nccl 2.28.9".
  virtual std::string description() const = 0;
};

}  // namespace slabload
