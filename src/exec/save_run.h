// A save under way on one rank: what its steps share.
#pragma once

#include <vector>

#include "backend/sink.h"
#include "base/bytes.h"
#include "exec/rank_run.h"

namespace slabload {

struct SaveRun final : RankRun {
  CheckpointSink& sink;
  std::vector<std::uint64_t> linear_crc;  // per tensor, of what this rank wrote

  SaveRun(CheckpointSink& to, RankParts on, const LoadPlan& by, RankStats& numbers, Timeline& times)
      : RankRun(to.made(), on, by, numbers, times), sink(to), linear_crc(to.made().tensors.size(), 0) {}

  // What is said if a signal ends the save now.
  std::string progress_text() const {
    return fmt::format("{} of {} had been written on this rank; the target is as it was", format_bytes(moved),
                       format_bytes(to_move));
  }

  void abandon() noexcept override { sink.abandon_alone(); }
};

}  // namespace slabload
