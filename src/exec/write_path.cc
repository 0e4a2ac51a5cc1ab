#include "exec/write_path.h"

#include <algorithm>

#include "base/crc64.h"
#include "base/stop_signal.h"

namespace slabload {
namespace {

constexpr std::uint64_t kPiece = 8 << 20;  // written at a time: large for the file system, small between two looks for a signal

}  // namespace

WritePath::WritePath(SaveRun& run, const StagingSplit& staging)
    : run_(run),
      host_(run.parts.device.host_accessible()),
      slot_bytes_(host_ ? kPiece : staging.slot_bytes),
      slots_(host_ ? 0 : staging.slots) {
  if (!host_) ring_ = run.parts.device.allocate_staging(slots_ * slot_bytes_, "the way of the shards to the file");
}

void WritePath::write(const Round& round, std::size_t number) {
  std::size_t next = 0;
  for (std::size_t step = 0; step < round.steps.size(); ++step) {
    tensor_ = round.steps[step].tensor;
    if (run_.sink.collective(tensor_)) {
      write_step(round, step, next, number);
      continue;
    }
    while (next < round.reads.size() && round.reads[next].step == step) {
      // What is joined to this one may belong to later steps.
      for (const std::size_t end = joined_end(round, next, number); next < end; ++next)
        write_item(round.reads[next], number);
      flush();
    }
  }
  drain(0);
}

// Writes that follow one another in the file and in memory are one; shards that lie apart may not, whatever the plan says.
std::size_t WritePath::joined_end(const Round& round, std::size_t first, std::size_t number) const {
  auto end_of = [&](const ReadItem& item) {
    return run_.at(item.to, number, item.tensor) +
           item.box.elements() * dtype_size(run_.tensor(item.tensor).dtype);
  };
  std::size_t end = first + 1;
  while (end < round.reads.size() && round.reads[end].joined &&
         end_of(round.reads[end - 1]) == run_.at(round.reads[end].to, number, round.reads[end].tensor)) {
    ++end;
  }
  return end;
}

// Into the open extent, and on to the file as often as it is full. What was joined is one run each.
void WritePath::write_item(const ReadItem& item, std::size_t number) {
  const TensorMeta& tensor = run_.tensor(item.tensor);
  const std::uint64_t size = dtype_size(tensor.dtype);
  const bool one_run = runs_of(tensor.shape, item.box).count == 1;
  const std::byte* data = run_.at(item.to, number, item.tensor);
  for_each_run(tensor.shape, item.box, [&](std::uint64_t begin, std::uint64_t length) {
    Part part{item.tensor, begin * size, 0};
    for (std::uint64_t left = length * size; left > 0; left -= part.bytes) {
      // Elements stay whole.
      part.bytes = std::min(left, (slot_bytes_ - open_.bytes) / size * size);
      if (part.bytes != 0) {
        if (open_.parts.empty()) open_.data = data;
        open_.parts.push_back(part);
        open_.bytes += part.bytes;
        part.offset += part.bytes;
        data += part.bytes;
      }
      if (part.bytes < left) flush();
    }
    if (!one_run) flush();
  });
}

void WritePath::flush() {
  if (open_.parts.empty()) return;
  Extent extent = std::exchange(open_, {});
  if (host_) return put(extent);
  if (under_way_.size() == slots_) drain(slots_ - 1);
  std::byte* to = ring_->data() + next_slot_ * slot_bytes_;
  next_slot_ = (next_slot_ + 1) % slots_;
  run_.parts.device.copy_out(extent.data, to, extent.bytes);
  extent.data = to;
  extent.copied = run_.parts.device.mark();
  under_way_.push_back(std::move(extent));
}

// Until at most so many are under way.
void WritePath::drain(std::size_t most) {
  for (; under_way_.size() > most; under_way_.pop_front()) {
    {
      ScopedTimer timer(run_.stats.copy_s);
      run_.parts.monitor.at("copy (out of the device)", nullptr);
      run_.wait([&] { return run_.parts.device.passed(under_way_.front().copied).has_value(); });
    }
    put(under_way_.front());
  }
}

void WritePath::check(const Part& part, const std::byte* data) {
  PhaseTimer timer(run_, Phase::verify, run_.stats.verify_s, part.tensor, part.bytes);
  const std::uint64_t after = run_.tensor(part.tensor).bytes() - part.offset - part.bytes;
  run_.linear_crc[part.tensor] ^= crc64_shift(crc64_part(data, part.bytes), after);
  run_.stats.verify_bytes += part.bytes;
}

void WritePath::put(const Extent& extent) {
  const Part& first = extent.parts.front();
  const TensorMeta& tensor = run_.tensor(first.tensor);
  tensor_ = first.tensor;
  run_.parts.monitor.at("write", &tensor.name);
  if (!run_.in_lockstep) check_stop(run_.progress_text());
  const std::byte* data = extent.data;
  for (const Part& part : extent.parts) {
    check(part, data);
    data += part.bytes;
  }
  {
    PhaseTimer timer(run_, Phase::write, run_.stats.write_s, first.tensor, extent.bytes);
    const std::uint64_t size = dtype_size(tensor.dtype);
    if (extent.parts.size() == 1) {
      run_.sink.write(first.tensor, {first.offset / size, (first.offset + first.bytes) / size}, extent.data);
    } else {
      run_.sink.write_extent(first.tensor, extent.parts.back().tensor, tensor.offset + first.offset, extent.bytes,
                             extent.data);
    }
  }
  run_.stats.write_bytes += extent.bytes;
  ++run_.stats.write_requests;
  run_.advance(extent.bytes);
}

// Compressed chunks: each rank its own, in the same calls.
void WritePath::write_step(const Round& round, std::size_t step, std::size_t& next, std::size_t number) {
  const std::uint32_t t = round.steps[step].tensor;
  const TensorMeta& tensor = run_.tensor(t);
  const std::uint64_t size = dtype_size(tensor.dtype);
  drain(0);
  for (std::uint32_t call = 0; call < round.steps[step].calls; ++call) {
    const bool mine = next < round.reads.size() && round.reads[next].step == step;
    const ReadItem* item = mine ? &round.reads[next++] : nullptr;
    const std::uint64_t bytes = mine ? item->box.elements() * size : 0;
    const std::byte* data = mine ? run_.at(item->to, number, t) : nullptr;
    if (mine && !host_) {
      if (bytes > slots_ * slot_bytes_)
        fail(Status::usage, "tensor {}: chunks of {} bytes are written at once, the slots hold {}; use a smaller --chunk",
             printable(tensor.name), bytes, slots_ * slot_bytes_);
      run_.parts.device.copy_out(data, ring_->data(), bytes);
      const Mark copied = run_.parts.device.mark();
      run_.wait([&] { return run_.parts.device.passed(copied).has_value(); });
      data = ring_->data();
    }
    if (mine) check({t, flat_index(tensor.shape, item->box.start) * size, bytes}, data);
    run_.parts.monitor.waiting("write (collective)", &tensor.name);
    {
      PhaseTimer timer(run_, Phase::write, run_.stats.write_s, t, bytes);
      run_.sink.write_together(t, mine ? &item->box : nullptr, data);
    }
    if (!mine) continue;
    run_.stats.write_bytes += bytes;
    ++run_.stats.write_requests;
    run_.advance(bytes);
  }
}

}  // namespace slabload
