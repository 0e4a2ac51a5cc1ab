#include "exec/saver.h"

#include <memory>

#include "base/crc64.h"
#include "base/stop_signal.h"
#include "exec/agreement.h"
#include "exec/write_path.h"

namespace slabload {
namespace {

// One rank's rounds. A round's transfers run while the one before it is written.
class SaveRounds {
 public:
  SaveRounds(SaveRun& run, FillPath& fills, WritePath& writes)
      : run_(run), fills_(fills), writes_(writes), agreement_(run, fills) {}

  void run() {
    const std::vector<Round>& rounds = run_.plan.rounds;
    try {
      for (std::size_t r = 0; r < rounds.size(); ++r) {
        while (r - written_ >= run_.plan.rounds_at_once) finish_oldest();
        if (rounds[r].communicates || run_.in_lockstep || r % kMeetEvery == kMeetEvery - 1) {
          if (run_.in_lockstep && !agreement_.over()) agreement_.failure = stop_wish(run_.progress_text());
          agreement_.reach("write (waiting for all ranks)");
        }
        if (!agreement_.failure) fills_.start(rounds[r], r);
      }
      while (written_ < rounds.size()) finish_oldest();
      agreement_.reach("write (waiting for all ranks to have ended)");
    } catch (const Error& error) {
      if (!error.agreed()) run_.leave(error);
      agreement_.settle();
      throw;
    }
  }

 private:
  void finish_oldest() {
    const std::size_t number = written_++;
    if (fills_.under_way() != 0) fills_.finish_oldest();
    if (agreement_.over()) return;
    try {
      writes_.write(run_.plan.rounds[number], number);
    } catch (const Error& error) {
      agreement_.note(error, writes_.tensor());
    } catch (const std::bad_alloc&) {
      agreement_.note(Error(Status::internal, "out of memory while writing"), writes_.tensor());
    }
  }

  SaveRun& run_;
  FillPath& fills_;
  WritePath& writes_;
  Agreement agreement_;
  std::size_t written_ = 0;
};

}  // namespace

std::vector<std::uint64_t> Saver::run(const SavePlan& save, const ShardSource& shards, RankStats& stats,
                                      Timeline& timeline) {
  const LoadPlan& plan = save.load;
  SaveRun run(sink_, parts_, plan, stats, timeline);
  // Nothing writes there: packs and sends only read.
  run.shard_space = const_cast<std::byte*>(shards.space);
  for (const std::byte* shard : shards.apart) run.shard_data.push_back(const_cast<std::byte*>(shard));
  for (const Round& round : plan.rounds) {
    for (const ReadStep& step : round.steps) run.in_lockstep |= sink_.collective(step.tensor);
    for (const ReadItem& item : round.reads)
      run.to_move += item.box.elements() * dtype_size(run.tensor(item.tensor).dtype);
    for (const FillItem& fill : round.fills) run.to_move += received_bytes(plan, fill);
  }
  FillPath fills(run);
  std::unique_ptr<WritePath> writes;
  {
    PhaseTimer timer(run, Phase::plan, stats.plan_s, kNoTensor, 0);
    parts_.monitor.waiting("plan (connecting the ranks)", nullptr);
    together(parts_.control, [&] { fills.connect(); });
    together(parts_.control, [&] {
      run.stage = parts_.device.allocate(plan.stage_bytes * plan.rounds_at_once, "the staging");
      writes = std::make_unique<WritePath>(run, staging_);
    });
  }
  stats.shard_bytes = plan.shard_bytes;
  stats.staging_peak = plan.stage_bytes * plan.rounds_at_once;
  if (!parts_.device.host_accessible()) {
    stats.ring_slots = staging_.slots;
    stats.ring_slot_bytes = staging_.slot_bytes;
    stats.staging_peak += staging_.slots * staging_.slot_bytes;
  }
  SaveRounds(run, fills, *writes).run();
  parts_.monitor.waiting("verify", nullptr);
  parts_.control.bit_xor(run.linear_crc);
  std::vector<std::uint64_t> crc64;
  for (std::size_t t = 0; t < run.linear_crc.size(); ++t)
    crc64.push_back(crc64_finish(run.linear_crc[t], run.tensor(static_cast<std::uint32_t>(t)).bytes()));
  stats.device_peak = parts_.device.peak_bytes();
  stats.fabric_bytes = parts_.fabric.own_bytes();
  return crc64;
}

}  // namespace slabload
