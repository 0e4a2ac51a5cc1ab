// What calls of NCCL a set of transfers becomes, and how they are cut into groups of NCCL, here called
// batches. Every rank works this out alone; that all fit together is shown at the end. Nothing here knows
// CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace slabload::nccl {

// The most calls of a batch, and the most bytes of a call: NCCL takes longer ones badly.
inline constexpr std::size_t kMostCalls = 256;
inline constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

struct Call {
  enum class Kind : std::uint8_t { all_gather, broadcast, send, receive };
  Kind kind;
  const std::byte* from;  // all_gather: this rank's part; broadcast: as `to`; receive: none
  std::byte* to;          // all_gather: the whole region; send: none
  std::uint64_t bytes;    // all_gather: of one part
  int peer;               // rank in the communicator: the other one; broadcast: the root; all_gather: none
};

struct Batch {
  std::optional<std::size_t> group;  // whose communicator the calls are on; nothing: that of all ranks
  std::vector<Call> calls;           // never none, at most kMostCalls
};

// This rank's place in one of its groups.
struct Seat {
  int members = 1;
  int position = 0;
};

class Schedule {
 public:
  // `peers` are those that send and receive may name, `most_peers` is the largest number of them on any rank.
  // `ranks` and `most_peers` are the same on all ranks.
  Schedule(int rank, int ranks, const std::vector<int>& peers, int most_peers, std::vector<Seat> groups);

  // As in Fabric.
  void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part);
  void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes);
  void send(int peer, const void* data, std::uint64_t bytes);
  void receive(int peer, void* data, std::uint64_t bytes);

  // The batches of all that was passed since the last take(), to be run one after the other.
  std::vector<Batch> take();

 private:
  // The number of a batch of messages: which messages of a pair, then which pairs. See below.
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  void check_peer(int peer) const;
  // Numbers the message at its end and puts it into its batch.
  void add_message(const Call& call);

  int rank_;
  int ranks_;
  std::vector<bool> is_peer_;
  std::uint64_t distances_;  // of pairs in one batch
  std::uint64_t messages_;   // of a pair in one batch
  std::vector<Seat> groups_;
  std::vector<std::vector<Call>> collectives_;  // per group
  std::map<Key, std::vector<Call>> messages_by_key_;
  std::vector<std::uint64_t> sent_, received_;  // messages so far, per peer
};

// Why no rank waits for ever, and each message meets its own partner.
//
// NCCL runs a batch as a whole, and a rank's batches one after the other: a batch ends once each of its calls
// has met the same call on all ranks concerned. Give each batch of a set a key. Those of group g have (g, 0),
// (g, 1), ...; behind them come those of messages with (block of numbers, block of distances).
//
// 1. All ranks concerned put a call into the batch of the same key.
//    Collectives: the members of a group pass the same transfers with the same sizes in the same order, each
//    becomes equally many calls on all of them, and a cut comes after every kMostCalls.
//    Messages: those from rank a to rank b are numbered 0, 1, ... at both ends, anew in each set, in the
//    order in which they match, a large one being cut alike at both. Their distance, b - a modulo `ranks`, is
//    the same at both ends too. The key is made of number and distance by constants that all ranks share.
// 2. Every rank runs the batches of a set in ascending order of keys, and the sets one after the other.
// 3. So take the lowest key of which some batch has not ended. Every rank concerned has ended all lower ones
//    and gets to this one, so each of its calls meets its partners, and it ends. None waits for ever.
// 4. In a batch the messages from a to b are in the order of their numbers, in which NCCL matches them.
//
// A batch of messages has at most messages_ messages for each of at most min(distances_, most_peers) peers to
// send to, and as many to receive from: no more than kMostCalls.

}  // namespace slabload::nccl
