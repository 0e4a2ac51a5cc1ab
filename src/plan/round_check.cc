#include "plan/round_check.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/narrow.h"
#include "plan/plan_tensor.h"

namespace slabload {
namespace {

std::uint64_t hash_box(std::uint64_t seed, const Box& box) {
  for (std::uint64_t s : box.start) seed = mix_hash(seed, s);
  for (std::uint64_t e : box.extent) seed = mix_hash(seed, e);
  return seed;
}

bool inside(const Box& box, const Box& outer) {
  if (box.ndim() != outer.ndim() || box.extent.size() != box.ndim()) return false;
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    if (box.start[d] < outer.start[d] || box.extent[d] > outer.extent[d] ||
        box.start[d] - outer.start[d] > outer.extent[d] - box.extent[d]) {
      return false;
    }
  }
  return true;
}

// The byte position of `box` in a dense buffer that holds `frame`, or nothing if it is not contiguous there.
std::optional<std::uint64_t> byte_position(const Box& box, const Box& frame, std::uint64_t size) {
  if (box.ndim() != frame.ndim() || box.extent.size() != box.ndim()) return std::nullopt;
  auto position = run_position(box, frame);
  if (!position) return std::nullopt;
  return *position * size;
}

}  // namespace

Validator::RoundCheck::RoundCheck(Validator& validator, const LoadPlan& plan, std::size_t number)
    : v_(validator),
      plan_(plan),
      number_(number),
      round_(plan.rounds[number]),
      came_(v_.came_[number % v_.came_.size()]),
      baseline_(is_baseline(v_.params_.strategy)) {
  for (std::uint32_t t : came_.touched) came_.of_tensor[t] = Coverage{};
  came_.touched.clear();
}

void Validator::RoundCheck::run() {
  calls_.resize(round_.steps.size());
  check_spread();
  for (const ReadItem& read : round_.reads) check_read(read);
  for (const CopyItem& pack : round_.packs) check_pack(pack);
  if (!round_.fills.empty() && !round_.communicates)
    wrong(round_.fills[0].tensor, "a transfer in a round without any");
  for (const FillItem& fill : round_.fills) check_fill(fill);
  // An all-gather sends what this round's reads have put in place; so does a broadcast, or what came some rounds ago.
  for (std::uint32_t t : v_.touched_) {
    if (v_.passes_on_[t] && !has_what_it_passes_on(t)) wrong(t, "it passes on what has not been read");
    v_.passed_[t] = v_.placed_[t] = Coverage{};
    v_.passes_on_[t] = false;
  }
  v_.touched_.clear();
  for (const auto& [tensor, own] : spread_own_) {
    if (!(own == spread_read_[tensor])) wrong(tensor, "it broadcasts what has not been read");
  }
  for (const auto& [tensor, read] : spread_read_) {
    if (!(read == spread_own_[tensor])) wrong(tensor, "what has been read is not broadcast");
  }
  if (spread_begin_ + spread_sent_ != spread_end_) wrong(0, "a part of the staging is not broadcast");
  for (const CopyItem& copy : round_.unpacks) check_unpack(copy);
  check_overlaps();
  if (round_.stage_bytes > plan_.stage_bytes) wrong(0, "more staging than the plan has");
}

void Validator::RoundCheck::wrong(std::uint32_t tensor, const std::string& what) const {
  v_.wrong(plan_, number_, tensor, what);
}

std::uint64_t Validator::RoundCheck::size_of(std::uint32_t t) const {
  return dtype_size(plan_.dtypes[t]);
}

Box Validator::RoundCheck::whole_of(std::uint32_t t) const {
  return whole_box(v_.index_.tensors[t].shape);
}

void Validator::RoundCheck::known(std::uint32_t t) const {
  if (t >= v_.index_.tensors.size()) wrong(t, "an item of no tensor");
}

void Validator::RoundCheck::limit(std::uint32_t t, std::uint64_t bytes) const {
  if (bytes == 0) wrong(t, "an item of nothing");
  if (bytes >= kItemLimit) wrong(t, "an item of 1 GiB or more");
}

void Validator::RoundCheck::hold(const Place& place, std::uint32_t t, std::uint64_t bytes, const Box& box,
                                 bool early) {
  const std::uint64_t space = place.space == Space::stage  ? round_.stage_bytes
                              : place.space == Space::keep ? plan_.keep_bytes
                                                           : plan_.shard_bytes;
  if (bytes > space || place.offset > space - bytes) wrong(t, "beyond its space");
  if (place.space == Space::stage) at_.try_emplace(place.offset, regions_.size());
  regions_.push_back({place.space, place.offset, bytes, t, box, early});
}

void Validator::RoundCheck::arrive(const Place& place, std::uint32_t t, const Box& box) {
  const ShardPlace& shard = plan_.shards[t];
  bool right = false;
  for_each_met(t, box, [&](const Box& block, const Box& frame, std::uint64_t before) {
    if (right || !inside(box, block)) return;
    auto position = byte_position(box, frame, size_of(t));
    right = position && place.offset == shard.offset + before * size_of(t) + *position;
  });
  if (!right) wrong(t, "lands at the wrong place " + box.text());
  count_arrival(t, box);
}

void Validator::RoundCheck::count_arrival(std::uint32_t t, const Box& box) {
  Coverage one;
  one.add(box);
  v_.arrivals_[t].add(one);
  if (v_.mask_of_[t] == 0) return;
  if (came_.of_tensor[t] == Coverage{}) came_.touched.push_back(t);
  came_.of_tensor[t].add(one);
}

bool Validator::RoundCheck::is_in(const Region& region, const Place& place, std::uint32_t t, const Box& from_box,
                                  bool early) const {
  if (region.tensor != t || region.space != place.space || (early && !region.early) ||
      !inside(from_box, region.box)) {
    return false;
  }
  auto position = byte_position(from_box, region.box, size_of(t));
  return position && place.offset == region.offset + *position;
}

bool Validator::RoundCheck::is_there(const Place& place, std::uint32_t t, const Box& from_box, bool early) {
  if (in_spread(place)) {
    const StagedPart& part = spread_part(place.offset);
    return !early && part.tensor == t && part.offset == place.offset && from_box == whole_of(t);
  }
  if (place.space == Space::stage) {
    auto exact = at_.find(place.offset);
    if (exact != at_.end() && is_in(regions_[exact->second], place, t, from_box, early)) return true;
  }
  // Else it is a part of a read: the last one that does not begin behind it.
  auto found = reads_of_.find(t);
  if (found == reads_of_.end()) return false;
  auto& [reads, sorted] = found->second;
  auto key = [&](std::size_t i) { return std::pair(regions_[i].space, regions_[i].offset); };
  if (!sorted) std::sort(reads.begin(), reads.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  sorted = true;
  auto behind = std::upper_bound(reads.begin(), reads.end(), std::pair(place.space, place.offset),
                                 [&](const auto& at, std::size_t i) { return at < key(i); });
  return behind != reads.begin() && is_in(regions_[*std::prev(behind)], place, t, from_box, early);
}

Validator::Whole& Validator::RoundCheck::whole(const Place& place, std::uint32_t t, std::uint64_t element) {
  auto& wholes = place.space == Space::keep ? v_.kept_ : staged_;
  const std::uint64_t base = place.offset - element * size_of(t);
  Whole& out = wholes.try_emplace(t, Whole{place.space, base, {}}).first->second;
  if (out.space != place.space || out.base != base) wrong(t, "a part apart from the rest of its tensor");
  return out;
}

// Whole tensors, end to end in the staging.
void Validator::RoundCheck::check_spread() {
  if (round_.spread.empty()) return;
  spread_begin_ = spread_end_ = round_.spread.front().offset;
  for (const StagedPart& part : round_.spread) {
    known(part.tensor);
    const std::uint64_t elements = v_.index_.tensors[part.tensor].elements();
    if (part.offset != spread_end_ || part.range.begin != 0 || part.range.end != elements || elements == 0)
      wrong(part.tensor, "a spread tensor apart from the others");
    spread_end_ += elements * size_of(part.tensor);
  }
  const std::uint32_t first = round_.spread.front().tensor;
  if (spread_end_ > round_.stage_bytes) wrong(first, "beyond its space");
  regions_.push_back({Space::stage, spread_begin_, spread_end_ - spread_begin_, first, Box{}, false});
}

const StagedPart& Validator::RoundCheck::spread_part(std::uint64_t offset) const {
  auto part = std::upper_bound(round_.spread.begin(), round_.spread.end(), offset,
                               [](std::uint64_t at, const StagedPart& p) { return at < p.offset; });
  return *--part;
}

bool Validator::RoundCheck::in_spread(const Place& place) const {
  return place.space == Space::stage && place.offset >= spread_begin_ && place.offset < spread_end_;
}

void Validator::RoundCheck::check_read(const ReadItem& read) {
  known(read.tensor);
  const TensorMeta& tensor = v_.index_.tensors[read.tensor];
  if (read.step >= calls_.size() || read.step < last_step_ || round_.steps[read.step].tensor != read.tensor ||
      ++calls_[read.step] > round_.steps[read.step].calls) {
    wrong(read.tensor, "a read outside the round's steps");
  }
  last_step_ = read.step;
  if (!inside(read.box, whole_of(read.tensor))) wrong(read.tensor, "reads beyond the tensor");
  const std::uint64_t elements = read.box.elements();
  const std::uint64_t widest = std::max<std::uint64_t>(size_of(read.tensor), dtype_size(tensor.dtype));
  limit(read.tensor, elements * widest);
  joined_bytes_ = read.joined ? joined_bytes_ + elements * widest : elements * widest;
  limit(read.tensor, joined_bytes_);
  if (read.joined) check_joined(read);
  last_read_ = &read;
  if (tensor.storage != StorageKind::fill || baseline_) v_.reads_[read.tensor].add(read.box);
  if (in_spread(read.to)) return check_spread_read(read);
  if (read.to.space == Space::shard) {
    arrive(read.to, read.tensor, read.box);
    v_.placed_[read.tensor].add(read.box);
    v_.touched_.push_back(read.tensor);
  }
  reads_of_[read.tensor].regions.push_back(regions_.size());
  hold(read.to, read.tensor, elements * size_of(read.tensor), read.box, true);
  if (baseline_ && read.to.space != Space::shard) {
    auto position = byte_position(read.box, whole_of(read.tensor), 1);
    if (!position) wrong(read.tensor, "a strided read");
    whole(read.to, read.tensor, *position).held.add(read.box);
  }
}

// It goes on where the one before it ended, in the file and in memory.
void Validator::RoundCheck::check_joined(const ReadItem& read) const {
  if (last_read_ == nullptr) wrong(read.tensor, "joined to no read");
  auto file_range = [&](const ReadItem& item) {
    const TensorMeta& tensor = v_.index_.tensors[item.tensor];
    const std::uint64_t size = dtype_size(tensor.dtype);
    auto position = byte_position(item.box, whole_box(tensor.shape), size);
    if (tensor.storage != StorageKind::contiguous || tensor.big_endian || plan_.dtypes[item.tensor] != tensor.dtype ||
        !position) {
      wrong(item.tensor, "a read that cannot be joined to another");
    }
    const std::uint64_t begin = tensor.offset + *position;
    return std::pair(begin, begin + item.box.elements() * size);
  };
  const auto before = file_range(*last_read_);
  const auto here = file_range(read);
  if (v_.index_.tensors[last_read_->tensor].file != v_.index_.tensors[read.tensor].file ||
      before.second != here.first || last_read_->to.space != read.to.space ||
      last_read_->to.offset + (before.second - before.first) != read.to.offset) {
    wrong(read.tensor, "joined to a read that it does not follow");
  }
}

void Validator::RoundCheck::check_spread_read(const ReadItem& read) {
  const StagedPart& part = spread_part(read.to.offset);
  auto position = byte_position(read.box, whole_of(read.tensor), size_of(read.tensor));
  const bool right = part.tensor == read.tensor && position && read.to.offset == part.offset + *position;
  if (!right) wrong(read.tensor, "lands at the wrong place of the staging " + read.box.text());
  spread_read_[read.tensor].add(read.box);
}

void Validator::RoundCheck::check_pack(const CopyItem& pack) {
  known(pack.tensor);
  if (!inside(pack.box, pack.from_box) || !(pack.to_box == pack.box) || pack.to.space != Space::stage ||
      !is_there(pack.from, pack.tensor, pack.from_box, true)) {
    wrong(pack.tensor, "packs what is not there " + pack.box.text());
  }
  hold(pack.to, pack.tensor, pack.box.elements() * size_of(pack.tensor), pack.box, true);
}

std::uint64_t Validator::RoundCheck::message(std::uint64_t from, std::uint64_t to, std::uint64_t sequence,
                                             const FillItem& fill) const {
  const std::uint64_t hash = mix_hash(mix_hash(mix_hash(mix_hash(1, from), to), number_), sequence);
  return hash_box(mix_hash(mix_hash(hash, fill.tensor), fill.bytes), fill.box);
}

void Validator::RoundCheck::check_fill(const FillItem& fill) {
  known(fill.tensor);
  limit(fill.tensor, fill.bytes);
  const bool pair = fill.kind == FillItem::Kind::send || fill.kind == FillItem::Kind::receive;
  if (pair ? fill.range.begin != 0 || fill.range.end != 0 : fill.box.ndim() != 0 || !fill.box.extent.empty())
    wrong(fill.tensor, "an item that says what it has no use for");
  if (!pair) return check_collective(fill);
  if (fill.bytes != fill.box.elements() * size_of(fill.tensor)) wrong(fill.tensor, "a message of another size");
  if (fill.peer == plan_.rank || fill.peer >= v_.layout_.mesh().ranks()) wrong(fill.tensor, "a message to no rank");
  if (fill.kind == FillItem::Kind::send) {
    if (!is_there(fill.at, fill.tensor, fill.box, true))
      wrong(fill.tensor, "sends what is not there " + fill.box.text());
    v_.sent_ += message(plan_.rank, fill.peer, sends_[fill.peer]++, fill);
    return;
  }
  v_.received_ += message(fill.peer, plan_.rank, receives_[fill.peer]++, fill);
  if (fill.at.space == Space::shard) {
    arrive(fill.at, fill.tensor, fill.box);
  } else {
    hold(fill.at, fill.tensor, fill.bytes, fill.box, false);
  }
}

void Validator::RoundCheck::check_collective(const FillItem& fill) {
  if (fill.group >= plan_.groups.size()) wrong(fill.tensor, "a collective of no group");
  const Membership& member = v_.memberships_[fill.group];
  if (!member.self) wrong(fill.tensor, "a collective of a group it is not in");
  std::uint64_t item =
      mix_hash(mix_hash(mix_hash(static_cast<std::uint64_t>(fill.kind), fill.tensor), fill.bytes), number_);
  item = mix_hash(mix_hash(mix_hash(item, fill.part), fill.peer), fill.range.begin);
  v_.chains_[fill.group] = mix_hash(v_.chains_[fill.group], item);
  fill.kind == FillItem::Kind::all_gather ? check_all_gather(fill, *member.self, member.size)
                                          : check_broadcast(fill, *member.self, member.size);
}

void Validator::RoundCheck::check_all_gather(const FillItem& fill, std::uint64_t me, std::uint64_t members) {
  const ShardPlace& shard = plan_.shards[fill.tensor];
  const std::uint64_t size = size_of(fill.tensor);
  if (fill.range.empty() || fill.bytes != fill.range.size() * size)
    wrong(fill.tensor, "a collective of another size");
  if (fill.at.space != Space::shard || fill.range.end > shard.box.elements() ||
      static_cast<std::int32_t>(fill.group) != plan_.replicas[fill.tensor] ||
      fill.at.offset != shard.offset + fill.range.begin * size || fill.part == 0 || fill.part % size != 0) {
    wrong(fill.tensor, "an all-gather at the wrong place");
  }
  const std::uint64_t length = fill.range.size();
  const std::uint64_t part = std::min(length, fill.part / size);
  if (part < ceil_div(length, members)) wrong(fill.tensor, "an all-gather that leaves a gap");
  const FlatRange own{fill.range.begin + std::min(length, me * part),
                      fill.range.begin + std::min(length, (me + 1) * part)};
  for (const FlatRange& range :
       {FlatRange{fill.range.begin, own.begin}, FlatRange{own.end, fill.range.end}}) {
    for (const Box& box : shard_boxes(shard, range)) v_.arrivals_[fill.tensor].add(box);
  }
  for (const Box& box : shard_boxes(shard, own)) pass_on(fill.tensor).add(box);
  pass_on(fill.tensor);
}

bool Validator::RoundCheck::has_what_it_passes_on(std::uint32_t t) const {
  if (v_.passed_[t] == v_.placed_[t]) return true;
  // What came in the latest round that has ended for certain: all of it at once.
  const std::uint64_t ago = plan_.rounds_at_once;
  return number_ >= ago && v_.mask_of_[t] != 0 && v_.passed_[t] == v_.came_[(number_ - ago) % v_.came_.size()].of_tensor[t];
}

Coverage& Validator::RoundCheck::pass_on(std::uint32_t t) {
  if (!v_.passes_on_[t]) {
    v_.passes_on_[t] = true;
    v_.touched_.push_back(t);
  }
  return v_.passed_[t];
}

void Validator::RoundCheck::check_broadcast(const FillItem& fill, std::uint64_t me, std::uint64_t members) {
  if (fill.peer >= members || fill.part != 0) wrong(fill.tensor, "a broadcast of what is not there");
  if (!baseline_ && fill.at.space == Space::shard) return check_shard_broadcast(fill, me);
  if (!baseline_) return check_spread_broadcast(fill, me);
  const Shape& shape = v_.index_.tensors[fill.tensor].shape;
  if (fill.range.empty() || fill.bytes != fill.range.size() * size_of(fill.tensor))
    wrong(fill.tensor, "a collective of another size");
  if (fill.range.end > shape.elements() || fill.at.space == Space::shard)
    wrong(fill.tensor, "a broadcast of what is not there");
  Whole& of = whole(fill.at, fill.tensor, fill.range.begin);
  if (fill.peer == me) {
    if (!of.held.is_exactly(whole_of(fill.tensor))) wrong(fill.tensor, "a broadcast of what has not been read");
    return;
  }
  hold(fill.at, fill.tensor, fill.bytes, Box{}, false);
  for (const Box& box : flat_boxes(shape, fill.range)) of.held.add(box);
}

// A stretch of the replicas' shard, in its place.
void Validator::RoundCheck::check_shard_broadcast(const FillItem& fill, std::uint64_t me) {
  const ShardPlace& shard = plan_.shards[fill.tensor];
  const std::uint64_t size = size_of(fill.tensor);
  if (static_cast<std::int32_t>(fill.group) != plan_.replicas[fill.tensor] || fill.range.empty() ||
      fill.range.end > shard.box.elements() || fill.bytes != fill.range.size() * size ||
      fill.at.offset != shard.offset + fill.range.begin * size) {
    wrong(fill.tensor, "a broadcast of another place or size");
  }
  Coverage& coverage = fill.peer == me ? pass_on(fill.tensor) : v_.arrivals_[fill.tensor];
  for (const Box& box : shard_boxes(shard, fill.range)) coverage.add(box);
}

// The next stretch of what is spread.
void Validator::RoundCheck::check_spread_broadcast(const FillItem& fill, std::uint64_t me) {
  const std::uint64_t begin = spread_begin_ + spread_sent_;
  if (v_.memberships_[fill.group].size != v_.layout_.mesh().ranks() || fill.at.space != Space::stage ||
      fill.at.offset != begin || fill.bytes > spread_end_ - begin || fill.range.begin != 0 || fill.range.end != 0) {
    wrong(fill.tensor, "a broadcast apart from the others");
  }
  const std::uint64_t end = begin + fill.bytes;
  spread_sent_ += fill.bytes;
  auto part = round_.spread.begin() + (&spread_part(begin) - round_.spread.data());
  if (part->tensor != fill.tensor) wrong(fill.tensor, "a broadcast named after another tensor");
  for (; part != round_.spread.end() && part->offset < end; ++part) {
    const std::uint64_t size = size_of(part->tensor);
    const std::uint64_t last = part->offset + part->range.end * size;
    const std::uint64_t from = std::max(begin, part->offset) - part->offset;
    const std::uint64_t to = std::min(end, last) - part->offset;
    if (from % size != 0 || to % size != 0) wrong(part->tensor, "a broadcast that cuts an element");
    if (fill.peer != me) continue;
    for (const Box& box : flat_boxes(v_.index_.tensors[part->tensor].shape, {from / size, to / size}))
      spread_own_[part->tensor].add(box);
  }
}

void Validator::RoundCheck::check_unpack(const CopyItem& copy) {
  known(copy.tensor);
  const ShardPlace& shard = plan_.shards[copy.tensor];
  bool right = false;
  for_each_met(copy.tensor, copy.box, [&](const Box& block, const Box& frame, std::uint64_t before) {
    right = right || (inside(copy.box, block) && copy.to_box == frame && copy.to.space == Space::shard &&
                      copy.to.offset == shard.offset + before * size_of(copy.tensor));
  });
  if (!right || !inside(copy.box, copy.from_box)) wrong(copy.tensor, "unpacks to the wrong place " + copy.box.text());
  bool there = false;
  if (baseline_) {
    const Box all = whole_of(copy.tensor);
    there = copy.from.space != Space::shard && copy.from_box == all &&
            whole(copy.from, copy.tensor, 0).held.is_exactly(all);
  } else {
    there = is_there(copy.from, copy.tensor, copy.from_box, false);
  }
  if (!there) wrong(copy.tensor, "unpacks what is not there " + copy.box.text());
  count_arrival(copy.tensor, copy.box);
}

void Validator::RoundCheck::check_overlaps() {
  std::vector<std::size_t> order(regions_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(regions_[a].space, regions_[a].offset) < std::tie(regions_[b].space, regions_[b].offset);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Region& before = regions_[order[i - 1]];
    const Region& region = regions_[order[i]];
    if (region.space == before.space && region.offset < before.offset + before.bytes)
      wrong(region.tensor, "two things at one place");
  }
}

}  // namespace slabload
