#include "exec/loader.h"

#include <algorithm>

#include "base/narrow.h"
#include "base/stopwatch.h"
#include "exec/run_checksum.h"
#include "tensor/cast.h"

namespace slabload {
namespace {

// A file that was changed after it was indexed fails in odd places; then the change is what has to be said.
Error cause_of(const Error& error, Storage& storage) {
  try {
    storage.check_unchanged();
  } catch (const Error& change) {
    return change;
  }
  return error;
}

}  // namespace

Loader::Loader(const TensorIndex& index, LoaderParts parts, const LoaderOptions& options)
    : index_(index), parts_(parts), options_(options) {}

std::byte* Loader::at(const Place& place, std::size_t slot) const {
  switch (place.space) {
    case Space::shard:
      return shards_->data() + place.offset;
    case Space::stage:
      return stage_->data() + slot * plan_->stage_bytes + place.offset;
    case Space::keep:
      return keep_->data() + place.offset;
  }
  return nullptr;
}

LoadResult Loader::run(const LoadPlan& plan, RankStats& stats) {
  plan_ = &plan;
  stats_ = &stats;
  Stopwatch preparing;
  together(parts_.control, [&] {
    parts_.monitor.at("plan", nullptr);
    shards_ = parts_.device.allocate(plan.shard_bytes, "the shards");
    stage_ = parts_.device.allocate(plan.stage_bytes * plan.slots, "the staging");
    keep_ = parts_.device.allocate(plan.keep_bytes, "the whole model on rank 0");
    scratch_ = parts_.device.allocate(options_.scratch, "the conversion scratch");
  });
  stats.shard_bytes = plan.shard_bytes;
  stats.staging_peak = plan.stage_bytes * plan.slots + plan.keep_bytes + options_.scratch;
  if (options_.verify != VerifyMode::none) stored_crc_.assign(index_.tensors.size(), 0);
  if (options_.verify == VerifyMode::shards) final_crc_.assign(index_.tensors.size(), 0);
  moved_ = to_move_ = 0;
  for (const Round& round : plan.rounds) {
    for (const ReadItem& item : round.reads)
      to_move_ += item.box.elements() * dtype_size(index_.tensors[item.tensor].dtype);
    for (const FillItem& fill : round.fills) to_move_ += received_bytes(fill);
  }
  parts_.fabric.make_groups(plan.groups);
  stats.plan_s += preparing.seconds();

  run_rounds();
  stage_.reset();
  keep_.reset();
  scratch_.reset();

  LoadResult result;
  ScopedTimer timer(stats.verify_s);
  if (options_.verify == VerifyMode::none) {
    result.unverified = index_.tensors.size();
  } else {
    verify(result);
  }
  result.shards = std::move(shards_);
  return result;
}

void Loader::run_rounds() {
  const std::vector<Round>& rounds = plan_->rounds;
  const bool overlapped = plan_->slots > 1;
  if (!rounds.empty()) read_round(rounds[0], 0);
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const Round& round = rounds[r];
    std::size_t slot = r % plan_->slots;
    std::size_t next_slot = (r + 1) % plan_->slots;
    if (round.communicates) {
      ScopedTimer timer(stats_->fill_s);
      parts_.monitor.at("fill (waiting for all ranks to have read)", nullptr);
      parts_.control.agree(failure_);
    }
    if (!failure_) copy_all(round.packs, slot);
    if (round.communicates) issue_fills(round, slot);
    if (overlapped && r + 1 < rounds.size()) read_round(rounds[r + 1], next_slot);
    if (round.communicates) {
      ScopedTimer timer(stats_->fill_s);
      parts_.monitor.at("fill",
                        round.fills.empty() ? nullptr : &index_.tensors[round.fills.front().tensor].name);
      parts_.fabric.finish();
      for (const FillItem& fill : round.fills) {
        std::uint64_t bytes = received_bytes(fill);
        stats_->fill_bytes += bytes;
        moved_ += bytes;
      }
    }
    parts_.monitor.moved(moved_, to_move_);
    if (!failure_ || round.communicates) copy_all(round.unpacks, slot);
    if (!overlapped && r + 1 < rounds.size()) read_round(rounds[r + 1], next_slot);
  }
  // A file that was cut short or replaced reads as zeros without an error: it must still be what it was.
  parts_.monitor.at("read (checking that the files are unchanged)", nullptr);
  if (!failure_) {
    try {
      parts_.storage.check_unchanged();
    } catch (const Error& error) {
      failure_ = error;
    }
  }
  parts_.control.agree(failure_);
}

void Loader::read_round(const Round& round, std::size_t slot) {
  // After a failure this rank only takes part in what the others wait for.
  if (failure_) return;
  bool in_collective = false;
  try {
    std::size_t next = 0;
    for (std::size_t step = 0; step < round.steps.size(); ++step) {
      const TensorMeta& tensor = index_.tensors[round.steps[step].tensor];
      in_collective =
          parts_.storage.collective(tensor) && plan_->dtypes[round.steps[step].tensor] == tensor.dtype;
      if (in_collective) {
        read_step(round, step, next, slot);
        continue;
      }
      for (; next < round.reads.size() && round.reads[next].step == step; ++next) {
        read_item(round.reads[next], at(round.reads[next].to, slot));
      }
    }
  } catch (const Error& error) {
    Error cause = cause_of(error, parts_.storage);
    // The others are inside the same collective call and cannot come to agree: this error has to end the job
    // by itself.
    if (in_collective) throw cause;
    failure_ = cause;
  } catch (const std::bad_alloc&) {
    failure_ = Error(Status::internal, "out of memory while reading");
  } catch (const std::exception& error) {
    failure_ = Error(Status::internal, error.what());
  }
}

void Loader::read_step(const Round& round, std::size_t step, std::size_t& next, std::size_t slot) {
  const TensorMeta& tensor = index_.tensors[round.steps[step].tensor];
  for (std::uint32_t call = 0; call < round.steps[step].calls; ++call) {
    bool mine = next < round.reads.size() && round.reads[next].step == step;
    parts_.monitor.at("read (collective)", &tensor.name);
    const ReadItem* item = mine ? &round.reads[next] : nullptr;
    std::byte* out = mine ? at(item->to, slot) : nullptr;
    if (mine) prepare(out, item->box.elements() * dtype_size(tensor.dtype));
    {
      ScopedTimer timer(stats_->read_s);
      parts_.storage.read_collective(tensor, mine ? &item->box : nullptr, out);
    }
    if (!mine) continue;
    take_in(tensor, *item, item->box, out, out);
    ++next;
  }
}

void Loader::read_item(const ReadItem& item, std::byte* out) {
  const TensorMeta& tensor = index_.tensors[item.tensor];
  std::uint64_t source_size = dtype_size(tensor.dtype);
  std::uint64_t final_size = dtype_size(plan_->dtypes[item.tensor]);
  bool converts = plan_->dtypes[item.tensor] != tensor.dtype;
  std::uint64_t limit = converts ? options_.scratch : options_.read_piece;
  std::uint64_t total = item.box.elements();
  std::uint64_t step = std::max<std::uint64_t>(1, limit / source_size);
  std::uint64_t row = 1;
  for (std::size_t d = 1; d < item.box.ndim(); ++d) row *= item.box.extent[d];
  // Cut between rows, and between whole chunks, so that a piece is one box and a chunk is decoded once.
  std::uint64_t unit = tensor.chunked() && tensor.filtered() ? row * tensor.chunk[0] : row;
  if (step >= unit) {
    step = step / unit * unit;
  } else if (tensor.filtered() && !converts) {
    step = total;
  } else if (step > row) {
    step = step / row * row;
  }
  if (step >= total) {
    read_box(tensor, item, item.box, out);
    return;
  }
  for (std::uint64_t done = 0; done < total;) {
    std::uint64_t end = std::min(total, done + step);
    for (const Box& box : flat_boxes_in(item.box, {done, end})) {
      read_box(tensor, item, box, out);
      out += box.elements() * final_size;
    }
    done = end;
    parts_.fabric.progress();
  }
}

// The kernel clears every fresh page; done apart from the read, just before it, the page is still in cache
// when its bytes arrive, and the time can be told from reading.
void Loader::prepare(std::byte* data, std::uint64_t bytes) {
  Stopwatch watch;
  parts_.device.prepare(data, bytes);
  double passed = watch.seconds();
  stats_->memory_s += passed;
  stats_->plan_s += passed;
}

void Loader::read_box(const TensorMeta& tensor, const ReadItem& item, const Box& box, std::byte* out) {
  prepare(out, box.elements() * dtype_size(plan_->dtypes[item.tensor]));
  bool converts = plan_->dtypes[item.tensor] != tensor.dtype;
  std::byte* source = converts ? scratch_->data() : out;
  parts_.monitor.at("read", &tensor.name);
  {
    ScopedTimer timer(stats_->read_s);
    parts_.storage.read(tensor, box, source);
  }
  take_in(tensor, item, box, source, out);
}

// What follows a read: byte order, checksum, conversion. `source` holds the stored elements of `box`.
void Loader::take_in(const TensorMeta& tensor, const ReadItem& item, const Box& box, std::byte* source,
                     std::byte* out) {
  std::uint32_t source_size = dtype_size(tensor.dtype);
  std::uint64_t count = box.elements();
  DType final = plan_->dtypes[item.tensor];
  if (tensor.big_endian && source_size > 1) {
    ScopedTimer timer(stats_->copy_s);
    swap_bytes(source, count, source_size);
  }
  // What was never written has no bytes in the file that a checksum could be of.
  bool checked = options_.verify != VerifyMode::none && tensor.storage != StorageKind::fill;
  if (checked) {
    ScopedTimer timer(stats_->verify_s);
    stored_crc_[item.tensor] ^= box_checksum(tensor.shape, box, source_size, source);
    stats_->verify_bytes += count * source_size;
  }
  if (final != tensor.dtype) {
    ScopedTimer timer(stats_->copy_s);
    cast_elements(tensor.dtype, final, source, count, out);
    stats_->copy_bytes += count * dtype_size(final);
  }
  if (checked && options_.verify == VerifyMode::shards) {
    ScopedTimer timer(stats_->verify_s);
    final_crc_[item.tensor] ^= box_checksum(tensor.shape, box, dtype_size(final), out);
  }
  moved_ += count * source_size;
  parts_.monitor.moved(moved_, to_move_);
}

void Loader::copy_all(const std::vector<CopyItem>& copies, std::size_t slot) {
  for (const CopyItem& copy : copies) {
    std::uint32_t size = dtype_size(plan_->dtypes[copy.tensor]);
    std::byte* to = at(copy.to, slot);
    Dims first = copy.box.start;
    for (std::size_t d = 0; d < first.size(); ++d) first[d] -= copy.to_box.start[d];
    Shape target(copy.to_box.extent);
    Box there{first, copy.box.extent};
    if (runs_of(target, there).count == 1) prepare(to + flat_index(target, first) * size, copy.box.elements() * size);
    ScopedTimer timer(stats_->copy_s);
    parts_.device.copy_box(size, copy.box, at(copy.from, slot), copy.from_box, to, copy.to_box);
    stats_->copy_bytes += copy.box.elements() * size;
  }
}

void Loader::issue_fills(const Round& round, std::size_t slot) {
  for (const FillItem& fill : round.fills) {
    if (fill.kind != FillItem::Kind::send) prepare(at(fill.at, slot), fill.bytes);
  }
  ScopedTimer timer(stats_->fill_s);
  Fabric& fabric = parts_.fabric;
  // Receives first: a message that finds its receive posted needs no buffer in between.
  for (const FillItem& fill : round.fills) {
    if (fill.kind == FillItem::Kind::receive)
      fabric.receive(narrow<int>(fill.peer), at(fill.at, slot), fill.bytes);
  }
  for (const FillItem& fill : round.fills) {
    switch (fill.kind) {
      case FillItem::Kind::receive:
        break;
      case FillItem::Kind::send:
        fabric.send(narrow<int>(fill.peer), at(fill.at, slot), fill.bytes);
        break;
      case FillItem::Kind::all_gather:
        fabric.all_gather(fill.group, at(fill.at, slot), fill.bytes, fill.part);
        break;
      case FillItem::Kind::broadcast:
        fabric.broadcast(fill.group, narrow<int>(fill.peer), at(fill.at, slot), fill.bytes);
        break;
    }
  }
  fabric.start();
}

std::uint64_t Loader::received_bytes(const FillItem& fill) const {
  if (fill.kind == FillItem::Kind::send) return 0;
  if (fill.kind == FillItem::Kind::receive) return fill.bytes;
  const std::vector<int>& group = plan_->groups[fill.group];
  auto self = static_cast<std::uint64_t>(
      std::lower_bound(group.begin(), group.end(), narrow<int>(plan_->rank)) - group.begin());
  if (fill.kind == FillItem::Kind::broadcast) return self == fill.peer ? 0 : fill.bytes;
  return fill.bytes - (std::min(fill.bytes, (self + 1) * fill.part) - std::min(fill.bytes, self * fill.part));
}

void Loader::verify(LoadResult& result) {
  Control& control = parts_.control;
  parts_.monitor.at("verify", nullptr);
  std::size_t count = index_.tensors.size();
  bool alone = plan_->every_rank_reads;
  if (!alone) control.bit_xor(stored_crc_);
  std::vector<std::uint64_t> bad(count, 0);  // this rank's view; a tensor is wrong if it is wrong anywhere
  result.crc64.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    const TensorMeta& tensor = index_.tensors[t];
    result.crc64[t] = crc64_finish(stored_crc_[t], tensor.bytes());
    bool known = tensor.crc64 && tensor.storage != StorageKind::fill;
    // An empty tensor's checksum needs no reading.
    known |= tensor.crc64 && tensor.bytes() == 0;
    (known ? result.verified : result.unverified) += 1;
    if (known && *tensor.crc64 != result.crc64[t]) bad[t] = 1;
  }
  if (options_.verify == VerifyMode::shards) {
    if (!alone) control.bit_xor(final_crc_);
    verify_shards(bad);
  }
  control.max(bad);
  for (std::size_t t = 0; t < count; ++t) {
    if (bad[t] != 0)
      result.wrong.push_back(
          {narrow<std::uint32_t>(t), index_.tensors[t].crc64.value_or(0), result.crc64[t]});
  }
}

// The final shards, re-read from memory. The shards of one set of replicas cover the tensor once, so their
// CRCs XOR to the one that the readers had; the other replicas must equal the first.
void Loader::verify_shards(std::vector<std::uint64_t>& bad) {
  std::size_t count = index_.tensors.size();
  std::vector<std::uint64_t> own(count, 0);
  std::vector<std::uint64_t> sum(count, 0);
  for (std::size_t t = 0; t < count; ++t) {
    const ShardPlace& shard = plan_->shards[t];
    if (shard.bytes == 0) continue;
    parts_.monitor.at("verify (shards)", &index_.tensors[t].name);
    std::uint32_t size = dtype_size(plan_->dtypes[t]);
    own[t] = box_checksum(index_.tensors[t].shape, shard.box, size, shards_->data() + shard.offset);
    stats_->verify_bytes += shard.bytes;
    std::int32_t group = plan_->replicas[t];
    bool first =
        group < 0 || plan_->groups[static_cast<std::size_t>(group)].front() == narrow<int>(plan_->rank);
    if (first) sum[t] = own[t];
  }
  std::vector<std::uint64_t> of_first = own;
  for (std::size_t g = 0; g < plan_->groups.size(); ++g) {
    std::vector<std::uint64_t> values;
    for (std::size_t t = 0; t < count; ++t) {
      if (plan_->replicas[t] == narrow<std::int32_t>(g)) values.push_back(own[t]);
    }
    if (values.empty()) continue;
    parts_.fabric.broadcast(g, 0, values.data(), values.size() * sizeof(std::uint64_t));
    parts_.fabric.start();
    parts_.fabric.finish();
    std::size_t next = 0;
    for (std::size_t t = 0; t < count; ++t) {
      if (plan_->replicas[t] == narrow<std::int32_t>(g)) of_first[t] = values[next++];
    }
  }
  parts_.control.bit_xor(sum);
  for (std::size_t t = 0; t < count; ++t) {
    bool read = index_.tensors[t].storage != StorageKind::fill;
    if (own[t] != of_first[t] || (read && sum[t] != final_crc_[t])) bad[t] = 1;
  }
}

}  // namespace slabload
