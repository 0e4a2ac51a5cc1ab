// A load under way on one rank: what its steps share.
#pragma once

#include <memory>
#include <vector>

#include "backend/control.h"
#include "backend/device.h"
#include "backend/fabric.h"
#include "backend/storage.h"
#include "base/stopwatch.h"
#include "exec/monitor.h"
#include "exec/rank_stats.h"
#include "exec/timeline.h"
#include "exec/verify_mode.h"
#include "plan/load_plan.h"
#include "plan/staging.h"

namespace slabload {

// The systems a load runs on; all outlive the loader.
struct LoaderParts {
  Storage& storage;
  Device& device;
  Fabric& fabric;
  Control& control;
  Monitor& monitor;
};

// A read is issued in pieces of at most this size, so that its checksum is taken from cache.
inline constexpr std::uint64_t kReadPiece = 1 << 20;

struct LoaderOptions {
  VerifyMode verify = VerifyMode::checksum;
  StagingSplit staging;  // as the plan was made for
  std::uint64_t read_piece = kReadPiece;
};

struct LoadRun {
  const TensorIndex& index;
  LoaderParts parts;
  const LoaderOptions& options;
  const LoadPlan& plan;
  RankStats& stats;
  Timeline& timeline;

  std::unique_ptr<DeviceMemory> shards{}, stage{}, keep{};
  std::vector<std::uint64_t>
      stored_crc{};  // linear, per tensor, of what this rank read; empty without verification
  std::vector<std::uint64_t> final_crc{};  // the same after conversion; only for VerifyMode::shards
  std::uint64_t moved = 0, to_move = 0;    // bytes this rank has read and received, and will

  // True if ranks read together: then one that fails cannot go on to the next agreement, since the others
  // wait for it inside the next read.
  bool reads_together = false;

  const TensorMeta& tensor(std::uint32_t t) const { return index.tensors[t]; }
  bool converts(std::uint32_t t) const { return plan.dtypes[t] != index.tensors[t].dtype; }

  // `round` picks the part of the staging.
  std::byte* at(const Place& place, std::size_t round) const {
    switch (place.space) {
      case Space::shard:
        return shards->data() + place.offset;
      case Space::stage:
        return stage->data() + round % plan.rounds_at_once * plan.stage_bytes + place.offset;
      case Space::keep:
        return keep->data() + place.offset;
    }
    return nullptr;
  }

  // A failure of this rank while it was at a tensor (or kNoTensor), with the tensor's name where it has none
  // yet. Others' errors stay as they are.
  Error about(const Error& error, std::uint32_t t) const {
    if (t == kNoTensor || error.agreed() || error.second_hand()) return error;
    const std::string name = printable(tensor(t).name);
    for (const std::string& named : {"tensor " + name, "tensor '" + name}) {
      if (error.message().find(named) != std::string::npos) return error;
    }
    return Error(error.status(), fmt::format("{} (tensor {})", error.message(), name));
  }

  // Ends the load on this rank alone; whoever catches the error has to end the job.
  [[noreturn]] void leave(const Error& error) {
    parts.storage.abandon();
    parts.device.abandon();
    throw error;
  }

  // Makes host memory present, see Device::prepare. Booked as start-up: it is no reading.
  void prepare(std::byte* data, std::uint64_t bytes) {
    Stopwatch watch;
    parts.device.prepare(data, bytes);
    double passed = watch.seconds();
    stats.memory_s += passed;
    stats.plan_s += passed;
  }

  void advance(std::uint64_t bytes) {
    moved += bytes;
    parts.monitor.moved(moved, to_move);
  }

  // Host memory needs no sleep between polls: MPI moves bytes only while it is called.
  template <typename Poll>
  void wait(Poll&& poll) {
    ScopedTimer timer(stats.wait_s);
    wait_until(parts.control, parts.device.host_accessible() ? Pace::busy : Pace::patient, poll);
  }
};

// Adds the time of its scope to a phase, in the sums and on the timeline.
class PhaseTimer {
 public:
  PhaseTimer(LoadRun& run, Phase phase, double& sum, std::uint32_t tensor, std::uint64_t bytes)
      : run_(run), phase_(phase), sum_(sum), tensor_(tensor), bytes_(bytes), begin_(now_s()) {}
  ~PhaseTimer() {
    double end = now_s();
    sum_ += end - begin_;
    run_.timeline.add(phase_, tensor_, begin_, end, bytes_);
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  LoadRun& run_;
  Phase phase_;
  double& sum_;
  std::uint32_t tensor_;
  std::uint64_t bytes_;
  double begin_;
};

}  // namespace slabload
