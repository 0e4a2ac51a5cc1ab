// Runs a SavePlan: shards in memory become one checkpoint.
#pragma once

#include <vector>

#include "backend/sink.h"
#include "exec/rank_run.h"
#include "plan/save_plan.h"
#include "plan/staging.h"

namespace slabload {

// Where a rank's shards lie: one after the other as LoadPlan::shards says, or each by itself. The device's memory, read only.
struct ShardSource {
  const std::byte* space = nullptr;
  std::vector<const std::byte*> apart{};  // per tensor; used if not empty
};

class Saver {
 public:
  // All outlive it.
  Saver(CheckpointSink& sink, RankParts parts, const StagingSplit& staging)
      : sink_(sink), parts_(parts), staging_(staging) {}

  // Writes what this rank is to write, round by round, and returns the CRC-64/XZ of each tensor, the same on every rank. The
  // sink has been created and the plan made for what it made(); the caller commits. Memory is allocated before the first
  // write: the plan's staging and, for a device, its slots. Collective over all ranks, each with its own part of one plan.
  // Throws an agreed Error if any rank failed, unless ranks write together (see CheckpointSink::collective): then an error
  // may be this rank's alone and what was made is gone.
  std::vector<std::uint64_t> run(const SavePlan& plan, const ShardSource& shards, RankStats& stats, Timeline& timeline);

 private:
  CheckpointSink& sink_;
  RankParts parts_;
  StagingSplit staging_;
};

}  // namespace slabload
