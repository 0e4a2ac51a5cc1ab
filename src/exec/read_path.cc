#include "exec/read_path.h"

#include <algorithm>

#include "base/narrow.h"
#include "tensor/box_checksum.h"
#include "tensor/cast.h"

namespace slabload {

ReadPath::ReadPath(LoadRun& run)
    : run_(run),
      host_(run.parts.device.host_accessible()),
      pool_(
          run.parts.device, run.options.staging.slots, run.options.staging.slot_bytes,
          [&run](Mark mark) {
            ScopedTimer timer(run.stats.copy_s);
            run.parts.monitor.at("copy (waiting for a staging slot)", nullptr);
            run.wait([&] { return run.parts.device.passed(mark).has_value(); });
          },
          [this](Span span, std::uint64_t bytes) {
            if (!host_) run_.timeline.add(Phase::copy, kNoTensor, span.begin_s, span.end_s, bytes);
          }),
      scratch_(run.parts.device.allocate(run.options.staging.scratch, "the conversion scratch")) {}

bool read_together(const LoadRun& run, std::uint32_t tensor) {
  return run.storage.collective(run.tensor(tensor)) && !run.converts(tensor);
}

void ReadPath::read(const Round& round, std::size_t number) {
  std::size_t next = 0;
  for (std::size_t step = 0; step < round.steps.size(); ++step) {
    const std::uint32_t t = tensor_ = round.steps[step].tensor;
    if (read_together(run_, t)) {
      read_step(round, step, next, number);
      continue;
    }
    while (next < round.reads.size() && round.reads[next].step == step) {
      // What is joined to this read may belong to later steps.
      const std::size_t end = joined_end(round, next);
      if (end - next > 1) {
        read_joined(round, next, end, number);
      } else {
        read_item(round.reads[next], run_.at(round.reads[next].to, number, round.reads[next].tensor));
      }
      next = end;
    }
  }
}

void ReadPath::read_step(const Round& round, std::size_t step, std::size_t& next, std::size_t number) {
  std::uint32_t t = round.steps[step].tensor;
  const TensorMeta& tensor = run_.tensor(t);
  for (std::uint32_t call = 0; call < round.steps[step].calls; ++call) {
    const bool mine = next < round.reads.size() && round.reads[next].step == step;
    const ReadItem* item = mine ? &round.reads[next++] : nullptr;
    const std::uint64_t bytes = mine ? item->box.elements() * dtype_size(tensor.dtype) : 0;
    std::byte* out = mine ? run_.at(item->to, number, t) : nullptr;
    std::byte* landing = !mine || in_place(t) ? out : pool_.acquire(bytes);
    if (mine && in_place(t)) run_.prepare(out, bytes);
    run_.parts.monitor.waiting("read (collective)", &tensor.name);
    {
      PhaseTimer timer(run_, Phase::read, run_.stats.read_s, t, bytes);
      run_.storage.read_collective(tensor, mine ? &item->box : nullptr, landing);
    }
    if (!mine) continue;
    take_in(t, item->box, landing);
    if (!in_place(t)) deliver(t, item->box, landing, out);
  }
}

namespace {

// The elements of `outer` that hold a row of chunks, or all there are.
std::uint64_t chunk_row(const TensorMeta& tensor, const Box& outer, std::uint64_t row) {
  return std::min(outer.elements(), tensor.filtered() ? row * tensor.chunk[0] : row);
}

std::uint64_t row_of(const Box& outer) {
  std::uint64_t row = 1;
  for (std::size_t d = 1; d < outer.ndim(); ++d) row *= outer.extent[d];
  return row;
}

// Calls visit(box) for the pieces of `outer`, in its order, of at most `limit` elements: whole rows, and
// whole rows of filtered chunks, where these are not more than `most`, so that a piece is one box and a chunk
// is decoded once.
template <typename Visit>
void for_each_part(const TensorMeta& tensor, const Box& outer, std::uint64_t limit, std::uint64_t most,
                   Visit&& visit) {
  const std::uint64_t total = outer.elements();
  if (limit >= total) {
    visit(outer);
    return;
  }
  const std::uint64_t row = row_of(outer);
  const std::uint64_t band = chunk_row(tensor, outer, row);
  std::uint64_t piece = std::max<std::uint64_t>(1, limit);
  if (piece >= band) {
    piece = piece / band * band;
  } else if (tensor.filtered() && band <= most) {
    piece = band;
  } else if (piece > row) {
    piece = piece / row * row;
  }
  for (std::uint64_t begin = 0; begin < total; begin += piece) {
    for (const Box& box : flat_boxes_in(outer, {begin, std::min(total, begin + piece)})) visit(box);
  }
}

}  // namespace

SlotNeed needed_of_slots(const LoadRun& run) {
  SlotNeed need;
  const std::uint64_t room = run.options.staging.slots * run.options.staging.slot_bytes;
  for (const Round& round : run.plan.rounds) {
    for (const ReadItem& item : round.reads) {
      const TensorMeta& tensor = run.tensor(item.tensor);
      const bool in_place = run.parts.device.host_accessible() && !run.converts(item.tensor);
      if (!tensor.filtered() || in_place || read_together(run, item.tensor)) continue;
      const std::uint64_t bytes = chunk_row(tensor, item.box, row_of(item.box)) * dtype_size(tensor.dtype);
      if (bytes > std::max(room, need.bytes)) need = {bytes, item.tensor};
    }
  }
  return need;
}

void ReadPath::read_item(const ReadItem& item, std::byte* out) {
  const std::uint32_t t = item.tensor;
  const TensorMeta& tensor = run_.tensor(t);
  const std::uint64_t size = dtype_size(tensor.dtype);
  if (in_place(t)) {
    read_box(t, item.box, out);
    return;
  }
  auto through_slot = [&](const Box& box) {
    std::byte* slot = pool_.acquire(box.elements() * size);
    read_box(t, box, slot);
    deliver(t, box, slot, out);
    out += box.elements() * dtype_size(run_.plan.dtypes[t]);
  };
  for_each_part(tensor, item.box, pool_.slot_bytes() / size, pool_.capacity() / size, through_slot);
}

// One behind the last read that is served by the same request as the first: at most a piece together.
std::size_t ReadPath::joined_end(const Round& round, std::size_t first) const {
  std::uint64_t room = run_.options.read_piece;
  if (!host_) room = std::min(room, pool_.slot_bytes());
  auto bytes_of = [&](std::size_t i) {
    const ReadItem& item = round.reads[i];
    return item.box.elements() * dtype_size(run_.tensor(item.tensor).dtype);
  };
  std::uint64_t bytes = bytes_of(first);
  std::size_t end = first + 1;
  for (; end < round.reads.size() && round.reads[end].joined; ++end) {
    if (read_together(run_, round.reads[end].tensor)) break;
    bytes += bytes_of(end);
    if (bytes > room) break;
  }
  return end;
}

void ReadPath::read_joined(const Round& round, std::size_t first, std::size_t end, std::size_t number) {
  const ReadItem& item = round.reads[first];
  const std::uint32_t t = tensor_ = item.tensor;
  const TensorMeta& tensor = run_.tensor(t);
  const TensorMeta& last = run_.tensor(round.reads[end - 1].tensor);
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < end; ++i)
    bytes += round.reads[i].box.elements() * dtype_size(run_.tensor(round.reads[i].tensor).dtype);
  const std::uint64_t offset =
      tensor.offset + run_position(item.box, whole_box(tensor.shape)).value() * dtype_size(tensor.dtype);
  std::byte* out = run_.at(item.to, number, item.tensor);
  std::byte* landing = host_ ? out : pool_.acquire(bytes);
  if (host_) run_.prepare(out, bytes);
  run_.parts.monitor.at("read", &tensor.name);
  const double begin_s = now_s();
  run_.storage.read_extent(tensor, last, offset, bytes, landing);
  const double taken_s = now_s() - begin_s;
  run_.stats.read_s += taken_s;
  std::byte* landed = landing;
  for (std::size_t i = first; i < end; ++i) {
    const ReadItem& one = round.reads[i];
    const std::uint64_t size = one.box.elements() * dtype_size(run_.tensor(one.tensor).dtype);
    // On the timeline each tensor has its share of the request.
    auto at = [&](const std::byte* byte) {
      return begin_s + taken_s * static_cast<double>(byte - landing) / static_cast<double>(bytes);
    };
    run_.timeline.add(Phase::read, one.tensor, at(landed), at(landed + size), size);
    take_in(one.tensor, one.box, landed);
    landed += size;
  }
  run_.parts.fabric.progress();
  if (host_) return;
  run_.stats.copy_bytes += bytes;
  pool_.begin_copies();
  run_.parts.device.copy_in(landing, out, bytes);
  pool_.release();
}

void ReadPath::read_box(std::uint32_t t, const Box& whole, std::byte* landing) {
  const TensorMeta& tensor = run_.tensor(t);
  const std::uint64_t size = dtype_size(tensor.dtype);
  auto read = [&](const Box& box) {
    const std::uint64_t bytes = box.elements() * size;
    if (in_place(t)) run_.prepare(landing, bytes);
    run_.parts.monitor.at("read", &tensor.name);
    {
      PhaseTimer timer(run_, Phase::read, run_.stats.read_s, t, bytes);
      run_.storage.read(tensor, box, landing);
    }
    take_in(t, box, landing);
    landing += bytes;
    run_.parts.fabric.progress();
  };
  for_each_part(tensor, whole, run_.options.read_piece / size, UINT64_MAX, read);
}

// What follows a read, while its bytes are in cache: byte order and checksum. `landed` holds `box` as it is
// stored.
void ReadPath::take_in(std::uint32_t t, const Box& box, std::byte* landed) {
  const TensorMeta& tensor = run_.tensor(t);
  const std::uint32_t size = dtype_size(tensor.dtype);
  const std::uint64_t bytes = box.elements() * size;
  if (tensor.big_endian && size > 1) {
    PhaseTimer timer(run_, Phase::copy, run_.stats.copy_s, t, bytes);
    swap_bytes(landed, box.elements(), size);
  }
  // What was never written has no bytes in the file that a checksum could be of.
  if (run_.options.verify != VerifyMode::none && tensor.storage != StorageKind::fill) {
    PhaseTimer timer(run_, Phase::verify, run_.stats.verify_s, t, bytes);
    std::uint64_t sum = box_checksum(tensor.shape, box, size, landed);
    run_.stored_crc[t] ^= sum;
    run_.stats.verify_bytes += bytes;
    if (!run_.final_crc.empty()) run_.final_crc[t] ^= run_.converts(t) ? final_checksum(t, box, landed) : sum;
  }
  run_.advance(bytes);
}

// The host's own conversion says what the device has to arrive at.
std::uint64_t ReadPath::final_checksum(std::uint32_t t, const Box& box, const std::byte* landed) const {
  const TensorMeta& tensor = run_.tensor(t);
  const DType final = run_.plan.dtypes[t];
  alignas(8) std::byte buffer[32 << 10];
  const std::uint64_t piece = sizeof buffer / dtype_size(final);
  std::uint64_t sum = 0;
  for (std::uint64_t begin = 0; begin < box.elements(); begin += piece) {
    for (const Box& part : flat_boxes_in(box, {begin, std::min(box.elements(), begin + piece)})) {
      cast_elements(tensor.dtype, final, landed, part.elements(), buffer);
      sum ^= box_checksum(tensor.shape, part, dtype_size(final), buffer);
      landed += part.elements() * dtype_size(tensor.dtype);
    }
  }
  return sum;
}

// From a slot to the final place.
void ReadPath::deliver(std::uint32_t t, const Box& box, std::byte* landed, std::byte* out) {
  const DType stored = run_.tensor(t).dtype;
  const DType final = run_.plan.dtypes[t];
  const std::uint64_t count = box.elements();
  const std::uint64_t final_bytes = count * dtype_size(final);
  Device& device = run_.parts.device;
  run_.stats.copy_bytes += final_bytes;
  pool_.begin_copies();
  if (host_) {
    run_.prepare(out, final_bytes);
    PhaseTimer timer(run_, Phase::copy, run_.stats.copy_s, t, final_bytes);
    device.cast(stored, final, landed, count, out);
  } else if (stored == final) {
    device.copy_in(landed, out, final_bytes);
  } else {
    // As much at a time as the scratch holds: a read may have taken several slots.
    const std::uint64_t stored_size = dtype_size(stored);
    const std::uint64_t piece = scratch_->size() / stored_size;
    for (std::uint64_t done = 0; done < count; done += piece) {
      const std::uint64_t elements = std::min(piece, count - done);
      device.copy_in(landed + done * stored_size, scratch_->data(), elements * stored_size);
      device.cast(stored, final, scratch_->data(), elements, out + done * dtype_size(final));
    }
  }
  pool_.release();
}

}  // namespace slabload
