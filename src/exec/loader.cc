#include "exec/loader.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/crc64.h"
#include "base/narrow.h"
#include "base/stop_signal.h"
#include "exec/agreement.h"
#include "exec/read_path.h"
#include "exec/replica_term.h"
#include "exec/shard_check.h"

namespace slabload {
namespace {

// The linear CRC of a tensor of which nothing is in the file: of its fill value, over and over.
std::uint64_t unwritten_crc(const TensorMeta& tensor) {
  std::vector<unsigned char> element = tensor.fill;
  if (tensor.big_endian) std::reverse(element.begin(), element.end());
  return crc64_repeat(crc64_part(element.data(), element.size()), element.size(), tensor.elements());
}

// A file that was changed after it was indexed fails in odd places; then the change is what has to be said.
Error cause_of(const Error& error, Storage& storage) {
  try {
    storage.check_unchanged();
  } catch (const Error& change) {
    return change;
  }
  return error;
}

// Options with which all slots together hold `bytes`, and everything else as much as it does now.
std::string larger_slots(const StagingSplit& split, std::uint64_t bytes) {
  const std::uint64_t slot = align_up(ceil_div(bytes, split.slots), kLeastSlot);
  const std::uint64_t staging =
      split.slots * slot + (split.scratch != 0 ? slot : 0) + split.rounds * split.round_bytes;
  return fmt::format("--slot-bytes {} --staging {}", slot, staging);
}

// The largest need of all ranks, the same on each. Collective.
SlotNeed largest(Control& control, SlotNeed need) {
  std::uint64_t most = need.bytes;
  control.max({&most, 1});
  std::uint64_t tensor = need.bytes == most ? need.tensor : kNoTensor;
  control.min({&tensor, 1});
  return {most, narrow<std::uint32_t>(tensor)};
}

// A collective read is not cut, so it has to fit the slots.
void check_collective_reads(const LoadRun& run) {
  if (run.parts.device.host_accessible() || !run.in_lockstep) return;
  SlotNeed need;
  for (const Round& round : run.plan.rounds) {
    for (const ReadItem& item : round.reads) {
      const std::uint64_t bytes = item.box.elements() * dtype_size(run.tensor(item.tensor).dtype);
      if (bytes > need.bytes && read_together(run, item.tensor)) need = {bytes, item.tensor};
    }
  }
  need = largest(run.parts.control, need);
  const StagingSplit& split = run.options.staging;
  if (need.bytes <= split.slots * split.slot_bytes) return;
  fail_agreed(
      Status::usage,
      fmt::format("tensor {}: a collective read of {} bytes does not fit the {} slots of {} bytes; it "
                  "does with {}, or read with --io independent",
                  printable(run.tensor(need.tensor).name), need.bytes, split.slots, split.slot_bytes,
                  larger_slots(split, need.bytes)));
}

// Says where chunks are decoded more than once.
void note_chunks(const LoadRun& run, LoadResult& result) {
  const std::vector<TensorMeta>& tensors = run.index.tensors;
  if (std::none_of(tensors.begin(), tensors.end(), [](const TensorMeta& t) { return t.filtered(); })) return;
  const SlotNeed need = largest(run.parts.control, needed_of_slots(run));
  const StagingSplit& split = run.options.staging;
  if (need.bytes == 0) return;
  // On the host the one slot, for what is converted, is as large as the budget makes it.
  const std::string remedy = run.parts.device.host_accessible()
                                 ? std::string("a larger --staging may avoid it")
                                 : larger_slots(split, need.bytes) + " avoids it";
  result.notes.push_back(fmt::format(
      "WARNING: tensor {} has rows of compressed chunks of {} bytes, more than the {} slots of {} "
      "bytes hold, so chunks are decoded more than once; {}",
      printable(run.tensor(need.tensor).name), need.bytes, split.slots, split.slot_bytes, remedy));
}

// Of the device, all that run() allocates.
void require_memory(const LoadRun& run) {
  const std::pair<std::uint64_t, const char*> parts[] = {
      {run.plan.shard_bytes, "the shards"},
      {run.plan.stage_bytes * run.plan.rounds_at_once, "the staging"},
      {run.options.staging.scratch, "the conversion scratch"},
      {run.plan.keep_bytes, "the whole model on rank 0"},
      {run.options.verify == VerifyMode::shards ? ShardCheck::bytes(run.plan) : 0, "the checksums"}};
  std::uint64_t bytes = 0;
  std::string text;
  for (const auto& [part, name] : parts) {
    bytes += part;
    if (part != 0) text += fmt::format("{}{} for {}", text.empty() ? "" : ", ", format_bytes(part), name);
  }
  run.parts.device.require(bytes, fmt::format("the load needs {} ({})", format_bytes(bytes), text));
}

std::uint64_t bytes_to_move(const TensorIndex& index, const LoadPlan& plan) {
  std::uint64_t bytes = 0;
  for (const Round& round : plan.rounds) {
    for (const ReadItem& item : round.reads)
      bytes += item.box.elements() * dtype_size(index.tensors[item.tensor].dtype);
    for (const FillItem& fill : round.fills) bytes += received_bytes(plan, fill);
  }
  return bytes;
}

// What is said if a signal ends the load now.
std::string progress_text(const LoadRun& run, std::size_t round) {
  return fmt::format("{} of {} rounds of the load were done, {} of {} had been moved on this rank", round,
                     run.plan.rounds.size(), format_bytes(run.moved), format_bytes(run.to_move));
}

}  // namespace

Loader::Loader(const TensorIndex& index, LoaderParts parts, const LoaderOptions& options)
    : index_(index), parts_(parts), options_(options) {}

LoadResult Loader::run(const LoadPlan& plan, RankStats& stats, Timeline& timeline) {
  LoadRun run{index_, parts_, options_, plan, stats, timeline};
  for (const Round& round : plan.rounds) {
    for (const ReadStep& step : round.steps) run.in_lockstep |= read_together(run, step.tensor);
  }
  FillPath fills(run);
  std::unique_ptr<ReadPath> reads;
  std::unique_ptr<ShardCheck> check;
  {
    PhaseTimer timer(run, Phase::plan, stats.plan_s, kNoTensor, 0);
    check_collective_reads(run);
    // The fabric first: what it takes of the device is then known when the shards ask for the rest.
    parts_.monitor.waiting("plan (connecting the ranks)", nullptr);
    together(parts_.control, [&] { fills.connect(); });
    parts_.monitor.at("plan (taking memory)", nullptr);
    together(parts_.control, [&] {
      require_memory(run);
      run.shards = parts_.device.allocate(plan.shard_bytes, "the shards");
      run.shard_space = run.shards->data();
      run.stage = parts_.device.allocate(plan.stage_bytes * plan.rounds_at_once, "the staging");
      run.keep = parts_.device.allocate(plan.keep_bytes, "the whole model on rank 0");
      reads = std::make_unique<ReadPath>(run);
      if (options_.verify == VerifyMode::shards) check = std::make_unique<ShardCheck>(run);
    });
  }
  const StagingSplit& staging = options_.staging;
  stats.shard_bytes = plan.shard_bytes;
  if (!parts_.device.host_accessible()) {
    stats.ring_slots = staging.slots;
    stats.ring_slot_bytes = staging.slot_bytes;
  }
  stats.staging_peak = plan.stage_bytes * plan.rounds_at_once + plan.keep_bytes +
                       staging.slots * staging.slot_bytes + staging.scratch +
                       (check != nullptr ? 2 * ShardCheck::bytes(plan) : 0);
  if (options_.verify != VerifyMode::none) run.stored_crc.assign(index_.tensors.size(), 0);
  if (options_.verify == VerifyMode::shards) run.final_crc.assign(index_.tensors.size(), 0);
  run.to_move = bytes_to_move(index_, plan);

  LoadResult result;
  note_chunks(run, result);
  run_rounds(run, *reads, fills);
  reads.reset();
  run.stage.reset();
  run.keep.reset();

  if (options_.verify == VerifyMode::none) {
    result.unverified = index_.tensors.size();
  } else {
    verify(run, check.get(), result);
  }
  stats.device_peak = parts_.device.peak_bytes();
  stats.fabric_bytes = parts_.fabric.own_bytes();
  stats.moving_s = timeline.moving_s();
  stats.hidden_s = timeline.hidden_s();
  result.shards = std::move(run.shards);
  return result;
}

void Loader::run_rounds(LoadRun& run, ReadPath& reads, FillPath& fills) {
  const std::vector<Round>& rounds = run.plan.rounds;
  Agreement agreement(run, fills);
  try {
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      while (fills.under_way() >= run.plan.rounds_at_once) fills.finish_oldest();
      // Nobody may stay away from what all do together.
      if (run.in_lockstep) {
        if (!agreement.over()) agreement.failure = stop_wish(progress_text(run, r));
        agreement.reach("read (waiting for all ranks)");
      }
      read_round(run, reads, agreement, r);
      if (rounds[r].communicates || (run.plan.in_step && r % kMeetEvery == kMeetEvery - 1))
        agreement.reach("fill (waiting for all ranks to have read)");
      if (!agreement.failure) fills.start(rounds[r], r);
    }
    end_rounds(run, reads, fills, agreement);
  } catch (const Error& error) {
    if (!error.agreed()) run.leave(error);
    agreement.settle();
    throw;
  }
}

void Loader::end_rounds(LoadRun& run, ReadPath& reads, FillPath& fills, Agreement& agreement) {
  fills.finish_all();
  if (!agreement.over()) {
    try {
      reads.drain();
      parts_.monitor.at("copy (waiting for the last copies)", nullptr);
      Mark last = parts_.device.mark();
      ScopedTimer timer(run.stats.copy_s);
      run.wait([&] { return parts_.device.passed(last).has_value(); });
    } catch (const Error& error) {
      fills.break_off(error);
    }
  }
  // A file that was cut short or replaced reads as zeros without an error: it must still be what it was.
  parts_.monitor.at("read (checking that the files are unchanged)", nullptr);
  if (!agreement.failure) {
    try {
      parts_.storage.check_unchanged();
    } catch (const Error& error) {
      agreement.failure = error;
    }
  }
  agreement.reach("read (waiting for all ranks to have ended)");
}

void Loader::read_round(LoadRun& run, ReadPath& reads, Agreement& agreement, std::size_t number) {
  // After a failure this rank only takes part in what the others wait for.
  if (agreement.over()) return;
  try {
    // In lockstep the ranks have agreed just before.
    if (!run.in_lockstep) check_stop(progress_text(run, number));
    reads.read(run.plan.rounds[number], number);
  } catch (const Error& error) {
    agreement.note(error.second_hand() ? error : cause_of(run.about(error, reads.tensor()), parts_.storage),
                   reads.tensor());
  } catch (const std::bad_alloc&) {
    agreement.note(Error(Status::internal, "out of memory while reading"), reads.tensor());
  } catch (const std::exception& error) {
    agreement.note(Error(Status::internal, error.what()), reads.tensor());
  }
}

// What every replica has read for itself counts once in a tensor's checksum, and must be the same everywhere.
void Loader::compare_rereads(LoadRun& run, std::vector<std::uint64_t>& bad) {
  if (run.plan.rereads.empty()) return;
  std::vector<std::uint64_t> difference(bad.size(), 0);
  for (std::size_t t = 0; t < bad.size(); ++t) {
    if (!run.plan.rereads[t]) continue;
    const Replica replica = replica_of(run.plan, t);
    difference[t] = replica_term(replica, run.stored_crc[t]);
    if (replica.first) continue;
    run.stored_crc[t] = 0;
    if (!run.final_crc.empty()) run.final_crc[t] = 0;
  }
  parts_.control.sum(difference);
  for (std::size_t t = 0; t < bad.size(); ++t) {
    if (difference[t] != 0) bad[t] = 1;
  }
}

void Loader::verify(LoadRun& run, ShardCheck* check, LoadResult& result) {
  Control& control = parts_.control;
  parts_.monitor.waiting("verify", nullptr);
  std::size_t count = index_.tensors.size();
  bool alone = run.plan.every_rank_reads;
  std::vector<std::uint64_t> bad(count, 0);  // this rank's view; a tensor is wrong if it is wrong anywhere
  {
    PhaseTimer timer(run, Phase::verify, run.stats.verify_s, kNoTensor, 0);
    if (!alone) compare_rereads(run, bad);
    if (!alone) control.bit_xor(run.stored_crc);
    result.crc64.resize(count);
    for (std::size_t t = 0; t < count; ++t) {
      const TensorMeta& tensor = index_.tensors[t];
      if (tensor.storage == StorageKind::fill) run.stored_crc[t] = unwritten_crc(tensor);
      result.crc64[t] = crc64_finish(run.stored_crc[t], tensor.bytes());
      const bool known = tensor.crc64.has_value();
      (known ? result.verified : result.unverified) += 1;
      if (known && *tensor.crc64 != result.crc64[t]) bad[t] = 1;
    }
    if (check != nullptr && !alone) control.bit_xor(run.final_crc);
  }
  if (check != nullptr) check->compare(bad);
  PhaseTimer timer(run, Phase::verify, run.stats.verify_s, kNoTensor, 0);
  control.max(bad);
  for (std::size_t t = 0; t < count; ++t) {
    if (bad[t] != 0)
      result.wrong.push_back(
          {narrow<std::uint32_t>(t), index_.tensors[t].crc64.value_or(0), result.crc64[t]});
  }
}

}  // namespace slabload
