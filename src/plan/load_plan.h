// One rank's part of a load: rounds of reads, copies and transfers. Every strategy is a planner that returns
// this; one executor (exec/loader.h) runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "index/tensor_index.h"
#include "layout/rank_group.h"
#include "layout/shard.h"
#include "tensor/box.h"

namespace slabload {

// MPI counts are int and NCCL wants chunks anyway: no read or transfer is larger than this.
inline constexpr std::uint64_t kItemLimit = std::uint64_t{1} << 30;

// Where bytes lie on this rank.
enum class Space : std::uint8_t {
  shard,  // the final shards, all in one region; tensor t at LoadPlan::shards[t].offset
  stage,  // this round's part of the staging
  keep    // memory that outlives a round (only the baseline rank0-full has it)
};
struct Place {
  Space space = Space::shard;
  std::uint64_t offset = 0;  // bytes from the start of the space
};

// Reads `box` of a tensor, densely, to `to`, converted to the tensor's final dtype.
struct ReadItem {
  std::uint32_t tensor = 0;
  std::uint32_t step = 0;  // which of Round::steps it belongs to
  Box box;
  Place to;
  // It goes on where the read before it ended, in the file and in memory: one request serves both.
  bool joined = false;
};

// Copies `box` from a dense buffer that holds `from_box` to a dense buffer that holds `to_box`. The start of a shard's
// frame counts modulo 2^64 (layout/shard.h).
struct CopyItem {
  std::uint32_t tensor = 0;
  Box box;
  Place from;
  Box from_box;
  Place to;
  Box to_box;
};

// One transfer. Sends and receives of a pair match in the order of their rounds and items.
struct FillItem {
  enum class Kind : std::uint8_t { all_gather, broadcast, send, receive };
  Kind kind = Kind::send;
  std::uint32_t tensor = 0;
  std::uint32_t group = 0;  // all_gather, broadcast: index into LoadPlan::groups
  std::uint32_t peer = 0;   // send, receive: world rank; broadcast: the root's position in the group
  Place at;
  std::uint64_t bytes = 0;  // of the whole region, or of the message
  std::uint64_t part = 0;   // all_gather: member i holds bytes [i*part, min((i+1)*part, bytes)) of the region
  Box box;          // send, receive: the elements it carries, in the tensor's coordinates
  FlatRange range;  // all_gather, broadcast of a shard: elements of the rank's own (flattened) shard
};

// The reads of one tensor in one round, the same list on every rank: what collective reading walks.
struct ReadStep {
  std::uint32_t tensor = 0;
  std::uint32_t calls = 0;  // the most reads any rank has for this step
};

// A part of a tensor in this round's staging, the same on every rank.
struct StagedPart {
  std::uint32_t tensor = 0;
  FlatRange range;
  std::uint64_t offset = 0;  // in the staging
};

struct Round {
  std::vector<ReadStep> steps;
  std::vector<ReadItem> reads;  // in the order of their steps
  std::vector<CopyItem> packs;  // after the reads, before the transfers
  std::vector<FillItem> fills;
  std::vector<CopyItem> unpacks;  // after the transfers
  // What broadcasts of staging carry, end to end; empty if there is none.
  std::vector<StagedPart> spread;
  std::uint64_t stage_bytes = 0;  // of this rank
  bool communicates = false;      // some rank has transfers in it; the same on every rank
};

// A rank's shard of one tensor in the shard space: dense, row-major, in the final dtype.
struct ShardPlace : Shard {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
inline constexpr std::uint64_t kShardAlignment = 64;

struct LoadPlan {
  std::uint64_t rank = 0;
  std::vector<DType> dtypes;       // final dtype per tensor
  std::vector<ShardPlace> shards;  // per tensor
  std::uint64_t shard_bytes = 0;   // size of the shard space
  std::uint64_t stage_bytes = 0;   // staging of one round: the largest round's
  std::uint64_t rounds_at_once =
      1;  // rounds under way at once: one is read while the transfers of the others run
  std::uint64_t keep_bytes = 0;
  std::vector<RankGroup> groups;  // this rank's own group for each entry
  std::vector<std::int32_t>
      replicas;  // per tensor: the group of ranks with the same shard, -1 if there is no other
  std::vector<bool> rereads;  // per tensor: every replica reads its shard for itself; empty: none does
  bool every_rank_reads = false;  // each rank reads every byte (a baseline): checksums are each rank's own
  bool in_step = true;  // every rank has the same number of rounds; not so where each reads for itself (plan_scan)
  std::vector<Round> rounds;
};

// Of a transfer, the bytes that this rank already has: its part of a region, the message that it sends, ...
std::uint64_t brought_bytes(const LoadPlan& plan, const FillItem& fill);
// The same for those who ask often: `self` is this rank's number in the group of an all-gather or a broadcast.
std::uint64_t brought_bytes(const FillItem& fill, std::uint64_t self);
// ... and those that it gets.
std::uint64_t received_bytes(const LoadPlan& plan, const FillItem& fill);

}  // namespace slabload
