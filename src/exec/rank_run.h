// A load or a save under way on one rank: what moving bytes between ranks needs of it.
#pragma once

#include <memory>

#include "backend/control.h"
#include "backend/device.h"
#include "backend/fabric.h"
#include "base/stopwatch.h"
#include "exec/monitor.h"
#include "exec/rank_stats.h"
#include "exec/timeline.h"
#include "plan/load_plan.h"

namespace slabload {

// The systems it runs on; all outlive it.
struct RankParts {
  Device& device;
  Fabric& fabric;
  Control& control;
  Monitor& monitor;
};

struct RankRun {
  const TensorIndex& index;
  RankParts parts;
  const LoadPlan& plan;
  RankStats& stats;
  Timeline& timeline;

  RankRun(const TensorIndex& of, RankParts on, const LoadPlan& by, RankStats& numbers, Timeline& times)
      : index(of), parts(on), plan(by), stats(numbers), timeline(times) {}
  virtual ~RankRun() = default;
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  std::byte* shard_space = nullptr;  // LoadPlan::shard_bytes bytes of the device
  // Or, where the shards lie apart: per tensor the place of its shard.
  std::vector<std::byte*> shard_data{};
  std::unique_ptr<DeviceMemory> stage{}, keep{};
  std::uint64_t moved = 0, to_move = 0;  // bytes this rank has moved, and will

  // True if ranks read or write together: then one that fails cannot go on to the next agreement, since the others
  // wait for it inside the next call.
  bool in_lockstep = false;

  const TensorMeta& tensor(std::uint32_t t) const { return index.tensors[t]; }

  // `round` picks the part of the staging, `t` the shard.
  std::byte* at(const Place& place, std::size_t round, std::uint32_t t) const {
    switch (place.space) {
      case Space::shard:
        return shard_data.empty() ? shard_space + place.offset
                                  : shard_data[t] + (place.offset - plan.shards[t].offset);
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

  // Lets go of what other ranks would have to come to as well: the job ends with this rank.
  virtual void abandon() noexcept = 0;

  // Ends the run on this rank alone; whoever catches the error has to end the job.
  [[noreturn]] void leave(const Error& error) {
    abandon();
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
  PhaseTimer(RankRun& run, Phase phase, double& sum, std::uint32_t tensor, std::uint64_t bytes)
      : run_(run), phase_(phase), sum_(sum), tensor_(tensor), bytes_(bytes), begin_(now_s()) {}
  ~PhaseTimer() {
    double end = now_s();
    sum_ += end - begin_;
    run_.timeline.add(phase_, tensor_, begin_, end, bytes_);
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  RankRun& run_;
  Phase phase_;
  double& sum_;
  std::uint32_t tensor_;
  std::uint64_t bytes_;
  double begin_;
};

}  // namespace slabload
