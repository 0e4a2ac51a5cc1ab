#include "plan/validate.h"

#include <algorithm>
#include <unordered_map>

#include "base/bytes.h"
#include "base/error.h"

namespace slabload {
namespace {

std::uint64_t hash_box(std::uint64_t seed, const Box& box) {
  for (std::uint64_t s : box.start) seed = mix_hash(seed, s);
  for (std::uint64_t e : box.extent) seed = mix_hash(seed, e);
  return seed;
}

bool inside(const Box& box, const Box& outer) { return intersect(box, outer) == box; }

// The byte position of `box` in a dense buffer that holds `outer`, or nothing if it is not contiguous there.
std::optional<std::uint64_t> contiguous_position(const Box& box, const Box& outer, std::uint64_t size) {
  if (!inside(box, outer)) return std::nullopt;
  Box relative = box;
  for (std::size_t d = 0; d < box.ndim(); ++d) relative.start[d] -= outer.start[d];
  Shape shape(outer.extent);
  if (runs_of(shape, relative).count != 1) return std::nullopt;
  return flat_index(shape, relative.start) * size;
}

}  // namespace

// What a stretch of staging (or of what a baseline keeps) holds in a round.
struct Validator::Region {
  Space space;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t tensor;
  Box box;
};

Validator::Validator(const TensorIndex& index, const Layout& layout, const PlanParams& params)
    : index_(index), layout_(layout), params_(params), reads_(index.tensors.size()) {
  for (const TensorMeta& tensor : index.tensors) resolved_.push_back(layout.resolve(tensor));
}

void Validator::wrong(const LoadPlan& plan, std::size_t round, std::uint32_t tensor, const std::string& what) const {
  fail(Status::internal, "the plan is wrong: rank {}, round {}, tensor {}: {}", plan.rank, round,
       tensor < index_.tensors.size() ? printable(index_.tensors[tensor].name) : "?", what);
}

void Validator::add(const LoadPlan& plan) {
  // Shards: the layout's box, in places of their own, in order.
  Dims coordinate = layout_.mesh().coordinate(plan.rank);
  std::uint64_t end = 0;
  for (std::uint32_t t = 0; t < index_.tensors.size(); ++t) {
    const ShardPlace& shard = plan.shards.at(t);
    if (!(shard.box == local_box(index_.tensors[t].shape, layout_.mesh(), resolved_[t], coordinate))) {
      wrong(plan, 0, t, "the shard is not the layout's");
    }
    if (plan.dtypes.at(t) != final_dtype(index_.tensors[t], params_.cast)) wrong(plan, 0, t, "another dtype");
    if (shard.bytes != shard.box.elements() * dtype_size(plan.dtypes[t]) || shard.offset < end) {
      wrong(plan, 0, t, "shards overlap");
    }
    end = shard.offset + shard.bytes;
  }
  if (end > plan.shard_bytes) wrong(plan, 0, 0, "the shard space is too small");
  bool baseline = is_baseline(params_.strategy);
  if (!baseline && (plan.keep_bytes != 0 || plan.stage_bytes * plan.slots > params_.staging)) {
    wrong(plan, 0, 0, fmt::format("{} of staging in {} slots, the budget is {}", format_bytes(plan.stage_bytes * plan.slots),
                                  plan.slots, format_bytes(params_.staging)));
  }
  arrivals_.assign(index_.tensors.size(), Coverage{});
  std::uint64_t outline = 0;
  for (const Round& round : plan.rounds) {
    for (const ReadStep& step : round.steps) outline = mix_hash(mix_hash(outline, step.tensor), step.calls);
    outline = mix_hash(outline, ~std::uint64_t{0});
  }
  if (plans_ == 0) {
    rounds_ = plan.rounds.size();
    outline_ = outline;
  } else if (rounds_ != plan.rounds.size() || outline_ != outline) {
    wrong(plan, 0, 0, "its rounds differ from those of other ranks");
  }
  ++plans_;
  chains_.assign(plan.groups.size(), 0);
  for (std::size_t r = 0; r < plan.rounds.size(); ++r) check_round(plan, r);
  for (std::size_t g = 0; g < chains_.size(); ++g) {
    std::uint64_t identity = mix_hash(g, 7);
    for (int member : plan.groups[g]) identity = mix_hash(identity, static_cast<std::uint64_t>(member));
    GroupRecord& record = groups_.try_emplace(identity, GroupRecord{chains_[g], 0, plan.groups[g].size()}).first->second;
    if (record.chain != chains_[g]) wrong(plan, 0, 0, "it disagrees with another member of its group on a transfer");
    ++record.seen;
  }
  for (std::uint32_t t = 0; t < index_.tensors.size(); ++t) {
    if (!arrivals_[t].is_exactly(plan.shards[t].box)) {
      wrong(plan, plan.rounds.size(), t, "some element of the shard does not arrive exactly once");
    }
  }
}

void Validator::check_round(const LoadPlan& plan, std::size_t number) {
  const Round& round = plan.rounds[number];
  std::vector<Region> regions;
  auto size_of = [&](std::uint32_t t) -> std::uint64_t { return dtype_size(plan.dtypes[t]); };
  auto limit = [&](std::uint32_t t, std::uint64_t bytes) {
    if (bytes == 0) wrong(plan, number, t, "an item of nothing");
    if (bytes >= kItemLimit) wrong(plan, number, t, "an item of 1 GiB or more");
  };
  auto hold = [&](const Place& place, std::uint32_t t, std::uint64_t bytes, const Box& box) {
    std::uint64_t space = place.space == Space::stage ? round.stage_bytes : plan.keep_bytes;
    if (place.offset + bytes > space) wrong(plan, number, t, "beyond its space");
    regions.push_back({place.space, place.offset, bytes, t, box});
  };
  // Something that lands in the shard must land where its elements belong.
  auto arrive = [&](const Place& place, std::uint32_t t, const Box& box) {
    const ShardPlace& shard = plan.shards[t];
    auto position = contiguous_position(box, shard.box, size_of(t));
    if (!position || place.offset != shard.offset + *position) wrong(plan, number, t, "lands at the wrong place " + box.text());
    arrivals_[t].add(box);
  };
  auto find_source = [&](const Place& place, std::uint32_t t, const Box& from_box) {
    if (place.space == Space::shard) {
      auto position = contiguous_position(from_box, plan.shards[t].box, size_of(t));
      return position && place.offset == plan.shards[t].offset + *position;
    }
    if (place.space == Space::keep) {
      return true;  // laid out tensor by tensor in an earlier round; the executor's tests compare its bytes
    }
    return std::any_of(regions.begin(), regions.end(), [&](const Region& region) {
      if (region.space != place.space || region.tensor != t) return false;
      auto position = contiguous_position(from_box, region.box, size_of(t));
      return position && place.offset == region.offset + *position;
    });
  };

  std::vector<std::uint32_t> calls(round.steps.size());
  std::uint32_t last_step = 0;
  for (const ReadItem& read : round.reads) {
    if (read.tensor >= index_.tensors.size() || read.step >= calls.size() || read.step < last_step ||
        round.steps[read.step].tensor != read.tensor || ++calls[read.step] > round.steps[read.step].calls) {
      wrong(plan, number, read.tensor, "a read outside the round's steps");
    }
    last_step = read.step;
    if (!inside(read.box, whole_box(index_.tensors[read.tensor].shape))) wrong(plan, number, read.tensor, "reads beyond the tensor");
    std::uint64_t bytes = read.box.elements() * size_of(read.tensor);
    limit(read.tensor, std::max<std::uint64_t>(bytes, read.box.elements() * dtype_size(index_.tensors[read.tensor].dtype)));
    if (index_.tensors[read.tensor].storage != StorageKind::fill || is_baseline(params_.strategy)) {
      reads_[read.tensor].add(read.box);
    }
    if (read.to.space == Space::shard) {
      arrive(read.to, read.tensor, read.box);
    } else {
      hold(read.to, read.tensor, bytes, read.box);
    }
  }
  for (const CopyItem& pack : round.packs) {
    if (!inside(pack.box, pack.from_box) || !(pack.to_box == pack.box) || pack.to.space != Space::stage ||
        !find_source(pack.from, pack.tensor, pack.from_box)) {
      wrong(plan, number, pack.tensor, "packs what is not there " + pack.box.text());
    }
    hold(pack.to, pack.tensor, pack.box.elements() * size_of(pack.tensor), pack.box);
  }
  // Every message of a pair is numbered within the round, on both sides.
  std::unordered_map<std::uint64_t, std::uint64_t> sends;
  std::unordered_map<std::uint64_t, std::uint64_t> receives;
  auto message = [&](std::uint64_t from, std::uint64_t to, std::uint64_t sequence, const FillItem& fill) {
    std::uint64_t hash = mix_hash(mix_hash(mix_hash(mix_hash(1, from), to), number), sequence);
    return hash_box(mix_hash(mix_hash(hash, fill.tensor), fill.bytes), fill.box);
  };
  for (const FillItem& fill : round.fills) {
    limit(fill.tensor, fill.bytes);
    bool pair = fill.kind == FillItem::Kind::send || fill.kind == FillItem::Kind::receive;
    if (pair) {
      if (fill.bytes != fill.box.elements() * size_of(fill.tensor)) wrong(plan, number, fill.tensor, "a message of another size");
      if (fill.peer == plan.rank || fill.peer >= layout_.mesh().ranks()) wrong(plan, number, fill.tensor, "a message to no rank");
    }
    switch (fill.kind) {
      case FillItem::Kind::send:
        if (!find_source(fill.at, fill.tensor, fill.box)) wrong(plan, number, fill.tensor, "sends what is not there " + fill.box.text());
        sent_ += message(plan.rank, fill.peer, sends[fill.peer]++, fill);
        break;
      case FillItem::Kind::receive:
        received_ += message(fill.peer, plan.rank, receives[fill.peer]++, fill);
        if (fill.at.space == Space::shard) {
          arrive(fill.at, fill.tensor, fill.box);
        } else {
          hold(fill.at, fill.tensor, fill.bytes, fill.box);
        }
        break;
      case FillItem::Kind::all_gather:
      case FillItem::Kind::broadcast: {
        const std::vector<int>& group = plan.groups.at(fill.group);
        auto self = std::find(group.begin(), group.end(), static_cast<int>(plan.rank));
        if (self == group.end()) wrong(plan, number, fill.tensor, "a collective of a group it is not in");
        std::uint64_t item = mix_hash(mix_hash(mix_hash(static_cast<std::uint64_t>(fill.kind), fill.tensor), fill.bytes), number);
        item = mix_hash(mix_hash(mix_hash(item, fill.part), fill.peer), fill.range.begin);
        chains_[fill.group] = mix_hash(chains_[fill.group], item);
        if (fill.kind == FillItem::Kind::all_gather) {
          const ShardPlace& shard = plan.shards[fill.tensor];
          std::uint64_t size = size_of(fill.tensor);
          if (fill.at.space != Space::shard || fill.at.offset != shard.offset + fill.range.begin * size ||
              fill.bytes != fill.range.size() * size || fill.part == 0 || fill.part % size != 0 ||
              fill.range.end > shard.box.elements()) {
            wrong(plan, number, fill.tensor, "an all-gather at the wrong place");
          }
          std::uint64_t part = fill.part / size;
          auto me = static_cast<std::uint64_t>(self - group.begin());
          std::uint64_t length = fill.range.size();
          FlatRange before{fill.range.begin, fill.range.begin + std::min(length, me * part)};
          FlatRange after{fill.range.begin + std::min(length, (me + 1) * part), fill.range.end};
          if (part * group.size() < length) wrong(plan, number, fill.tensor, "an all-gather that leaves a gap");
          for (const FlatRange& range : {before, after}) {
            for (const Box& box : flat_boxes_in(shard.box, range)) arrivals_[fill.tensor].add(box);
          }
        } else if (fill.at.space == Space::stage) {
          // A tensor beyond 1 GiB comes in several broadcasts side by side: one region for the whole tensor.
          if (fill.range.begin == 0 && plan.rank != static_cast<std::uint64_t>(group.at(fill.peer))) {
            Box whole = whole_box(index_.tensors[fill.tensor].shape);
            hold(fill.at, fill.tensor, whole.elements() * size_of(fill.tensor), whole);
          }
        }
        break;
      }
    }
  }
  bool baseline = is_baseline(params_.strategy);
  for (const CopyItem& copy : round.unpacks) {
    const ShardPlace& shard = plan.shards[copy.tensor];
    if (!inside(copy.box, copy.from_box) || !inside(copy.box, shard.box) || !(copy.to_box == shard.box) ||
        copy.to.space != Space::shard || copy.to.offset != shard.offset ||
        (!baseline && !find_source(copy.from, copy.tensor, copy.from_box))) {
      wrong(plan, number, copy.tensor, "unpacks what is not there " + copy.box.text());
    }
    arrivals_[copy.tensor].add(copy.box);
  }
  std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) {
    return std::tie(a.space, a.offset) < std::tie(b.space, b.offset);
  });
  for (std::size_t i = 1; i < regions.size(); ++i) {
    if (regions[i].space == regions[i - 1].space && regions[i].offset < regions[i - 1].offset + regions[i - 1].bytes) {
      wrong(plan, number, regions[i].tensor, "two things at one place of the staging");
    }
  }
  if (round.stage_bytes > plan.stage_bytes) wrong(plan, number, 0, "more staging than the plan has");
}

void Validator::finish() const {
  std::uint64_t ranks = layout_.mesh().ranks();
  if (plans_ != ranks) fail(Status::internal, "the plan is wrong: {} of {} ranks were checked", plans_, ranks);
  if (sent_ != received_) fail(Status::internal, "the plan is wrong: messages sent and received do not match");
  std::uint64_t times = params_.strategy == "every-rank" ? ranks : 1;
  for (std::size_t t = 0; t < reads_.size(); ++t) {
    bool in_file = index_.tensors[t].storage != StorageKind::fill || is_baseline(params_.strategy);
    Box whole = whole_box(index_.tensors[t].shape);
    if (!reads_[t].is_exactly(whole, in_file ? times : 0)) {
      fail(Status::internal, "the plan is wrong: tensor {} is not read exactly {} time(s)", printable(index_.tensors[t].name), times);
    }
  }
  for (const auto& [identity, record] : groups_) {
    if (record.seen != record.members) fail(Status::internal, "the plan is wrong: a group's members name different groups");
  }
}

}  // namespace slabload
