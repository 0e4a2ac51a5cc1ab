// What the ranks of one communicator share: a memory file without a name, which the others open as
// /proc/PID/fd/N of the rank that made it. So nothing is left behind however the processes end.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace fakenccl {

// The most operations of one kind that a rank may have pending (collectives, or transfers to one peer).
inline constexpr std::uint64_t ring_size = 4096;

enum class Kind : std::uint32_t { all_gather, broadcast, send, receive };

// What must be equal on all sides, and who is at the other end.
struct Signature {
  Kind kind = Kind::all_gather;
  ncclDataType_t type = ncclInt8;
  int root = -1;  // of a broadcast
  std::uint64_t count = 0;
};

// An operation as one rank has issued it. The three marks hold the operation's sequence number + 1 and never
// go back.
struct Side {
  std::atomic<std::uint64_t> issued{0};  // `signature` is valid
  std::atomic<std::uint64_t> started{
      0};  // the stream has come to it: its data lies at `offset` of file `descriptor`
  std::atomic<std::uint64_t> read{0};  // the rank has read all that it needs of others
  Signature signature;
  int descriptor = -1;
  std::uint64_t offset = 0;
};

// The two ends of a transfer.
struct PairSides {
  Side send;
  Side receive;
};

// How another process opens a memory file, and the token by which it knows that it is the right one.
struct FileName {
  int pid = 0;
  int descriptor = -1;
  std::uint64_t token = 0;
};

// One rank's part in a split; the marks hold the split's number + 1.
struct SplitSide {
  std::atomic<std::uint64_t> posted{0};  // color and key are valid
  std::atomic<std::uint64_t> made{0};    // `file` is valid: only of the first rank of each new communicator
  int color = 0;
  int key = 0;
  FileName file;
};

enum class Presence : std::uint32_t { absent, joined, aborted, destroyed };

struct RankBlock {
  std::atomic<int> taken{0};
  std::atomic<Presence> presence{Presence::absent};
  int pid = 0;
  std::uint64_t start_time = 0;  // with the pid, names the process for good
  int world_rank = 0;
  int device = 0;
  std::uint64_t host = 0;
  int version = 0;
  std::atomic<std::uint64_t> issued{0};  // collectives, transfers not counted
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> ended{0};
  SplitSide splits[2];  // by the number's parity: nobody can be more than one ahead
  char waits_for[320];  // for reports only
};

struct Header {
  std::uint64_t token = 0;
  std::atomic<int> ranks{0};
  std::atomic<int> joined{0};
  std::atomic<std::uint64_t> progress{0};  // grows with whatever happens in this communicator
};

// Makes the memory file of a communicator to be, and keeps it open until close_file.
FileName make_file();
void close_file(const FileName& file);

// The mapped file. Not for copying or moving: lives in its Communicator.
class Shared {
 public:
  Shared() = default;
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  // False if the file is not to be had any more. A number of ranks unlike the others' ends the process.
  bool open(const FileName& file, int ranks);

  Header& header() const { return *static_cast<Header*>(base_); }
  RankBlock& rank(int rank) const;
  Side& collective(int rank, std::uint64_t sequence) const;
  PairSides& pair(int from, int to, std::uint64_t sequence) const;
  void note_progress() const { header().progress.fetch_add(1); }

 private:
  void* base_ = nullptr;
  std::size_t size_ = 0;
  int ranks_ = 0;
};

// When the process started, in the kernel's ticks; nothing if there is no such process, or only its remains.
std::optional<std::uint64_t> start_time_of(int pid);

}  // namespace fakenccl
