// The verdict on one round of one rank (see validate.h): what lies where, and what of it is there before the transfers.
#pragma once

#include <map>
#include <utility>

#include "plan/validate.h"

namespace slabload {

class Validator::RoundCheck {
 public:
  RoundCheck(Validator& validator, const LoadPlan& plan, std::size_t number);
  void run();

 private:
  // What a stretch of memory holds in this round.
  struct Region {
    Space space;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint32_t tensor;
    Box box;
    bool early;  // there before the transfers
  };

  [[noreturn]] void wrong(std::uint32_t tensor, const std::string& what) const;
  std::uint64_t size_of(std::uint32_t t) const;
  Box whole_of(std::uint32_t t) const;
  void known(std::uint32_t t) const;
  void limit(std::uint32_t t, std::uint64_t bytes) const;

  void hold(const Place& place, std::uint32_t t, std::uint64_t bytes, const Box& box, bool early);
  // Calls visit(box, frame, offset) for the blocks of a shard that meet a box.
  template <typename Visit>
  void for_each_met(std::uint32_t t, const Box& box, Visit&& visit) {
    const ShardPlace& shard = plan_.shards[t];
    if (shard.blocks.empty()) return for_each_block(shard.box, shard.blocks, visit);
    const std::size_t ndim = shard.blocks.front().box.ndim();
    if (box.start.size() != ndim || box.extent.size() != ndim) return;
    v_.blocks_.try_emplace(t, shard).first->second.for_each(box, visit);
  }
  // Something that lands in the shard must land where its elements belong.
  void arrive(const Place& place, std::uint32_t t, const Box& box);
  // It is there from now on, and, after as many rounds as are under way at once, to be passed on.
  void count_arrival(std::uint32_t t, const Box& box);
  // True if a region of this round holds `from_box` densely at `place`; `early`: before the transfers.
  bool is_there(const Place& place, std::uint32_t t, const Box& from_box, bool early);
  bool is_in(const Region& region, const Place& place, std::uint32_t t, const Box& from_box, bool early) const;
  // A baseline keeps whole tensors: a part of one lies where it would lie in the whole.
  Whole& whole(const Place& place, std::uint32_t t, std::uint64_t element);

  // What this rank passes on of a tensor from its place.
  Coverage& pass_on(std::uint32_t t);
  bool has_what_it_passes_on(std::uint32_t t) const;
  void check_spread();
  bool in_spread(const Place& place) const;
  // The part that a place within what is spread belongs to.
  const StagedPart& spread_part(std::uint64_t offset) const;
  void check_read(const ReadItem& read);
  void check_joined(const ReadItem& read) const;
  void check_spread_read(const ReadItem& read);
  void check_pack(const CopyItem& pack);
  void check_fill(const FillItem& fill);
  void check_collective(const FillItem& fill);
  void check_all_gather(const FillItem& fill, std::uint64_t me, std::uint64_t members);
  void check_broadcast(const FillItem& fill, std::uint64_t me, std::uint64_t members);
  void check_shard_broadcast(const FillItem& fill, std::uint64_t me);
  void check_spread_broadcast(const FillItem& fill, std::uint64_t me);
  void check_unpack(const CopyItem& copy);
  void check_overlaps();
  // Every message of a pair is numbered within the round, on both sides.
  std::uint64_t message(std::uint64_t from, std::uint64_t to, std::uint64_t sequence, const FillItem& fill) const;

  Validator& v_;
  const LoadPlan& plan_;
  std::size_t number_;
  const Round& round_;
  Came& came_;  // of this round
  bool baseline_;
  std::vector<std::uint32_t> calls_;  // per step
  std::uint32_t last_step_ = 0;
  const ReadItem* last_read_ = nullptr;
  std::uint64_t joined_bytes_ = 0;  // of the request so far
  std::vector<Region> regions_;
  std::unordered_map<std::uint64_t, std::size_t> at_;  // staging: region by offset
  struct Reads {
    std::vector<std::size_t> regions;
    bool sorted = false;  // by space and offset
  };
  std::unordered_map<std::uint32_t, Reads> reads_of_;  // of a tensor: the regions that its reads made
  std::unordered_map<std::uint32_t, Whole> staged_;
  std::unordered_map<std::uint64_t, std::uint64_t> sends_, receives_;
  // Of what is spread: where it lies, how far broadcasts have come, what this rank reads and what it broadcasts.
  std::uint64_t spread_begin_ = 0, spread_end_ = 0, spread_sent_ = 0;
  std::unordered_map<std::uint32_t, Coverage> spread_read_, spread_own_;
};

}  // namespace slabload
