#include "plan/validate.h"

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"
#include "plan/staging.h"

namespace slabload {
namespace {

std::uint64_t hash_box(std::uint64_t seed, const Box& box) {
  for (std::uint64_t s : box.start) seed = mix_hash(seed, s);
  for (std::uint64_t e : box.extent) seed = mix_hash(seed, e);
  return seed;
}

bool inside(const Box& box, const Box& outer) {
  return box.ndim() == outer.ndim() && intersect(box, outer) == box;
}

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

// The verdict on one round of one rank: what lies where, and what of it is there before the transfers.
class Validator::RoundCheck {
 public:
  RoundCheck(Validator& validator, const LoadPlan& plan, std::size_t number)
      : v_(validator),
        plan_(plan),
        number_(number),
        round_(plan.rounds[number]),
        baseline_(is_baseline(v_.params_.strategy)) {}

  void run() {
    for (const ReadItem& read : round_.reads) check_read(read);
    for (const CopyItem& pack : round_.packs) check_pack(pack);
    if (!round_.fills.empty() && !round_.communicates)
      wrong(round_.fills[0].tensor, "a transfer in a round without any");
    for (const FillItem& fill : round_.fills) check_fill(fill);
    // An all-gather sends what this round's reads have put in place.
    for (const auto& [tensor, own] : gathered_) {
      if (!(own == read_in_place_[tensor])) wrong(tensor, "an all-gather of what has not been read");
    }
    for (const CopyItem& copy : round_.unpacks) check_unpack(copy);
    check_overlaps();
    if (round_.stage_bytes > plan_.stage_bytes) wrong(0, "more staging than the plan has");
  }

 private:
  // What a stretch of memory holds in this round.
  struct Region {
    Space space;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint32_t tensor;
    Box box;
    bool early;  // there before the transfers
  };

  [[noreturn]] void wrong(std::uint32_t tensor, const std::string& what) const {
    v_.wrong(plan_, number_, tensor, what);
  }
  std::uint64_t size_of(std::uint32_t t) const { return dtype_size(plan_.dtypes[t]); }
  Box whole_of(std::uint32_t t) const { return whole_box(v_.index_.tensors[t].shape); }

  void known(std::uint32_t t) const {
    if (t >= v_.index_.tensors.size()) wrong(t, "an item of no tensor");
  }

  void limit(std::uint32_t t, std::uint64_t bytes) const {
    if (bytes == 0) wrong(t, "an item of nothing");
    if (bytes >= kItemLimit) wrong(t, "an item of 1 GiB or more");
  }

  void hold(const Place& place, std::uint32_t t, std::uint64_t bytes, const Box& box, bool early) {
    std::uint64_t space = place.space == Space::stage  ? round_.stage_bytes
                          : place.space == Space::keep ? plan_.keep_bytes
                                                       : plan_.shard_bytes;
    if (bytes > space || place.offset > space - bytes) wrong(t, "beyond its space");
    of_tensor_[t].push_back(regions_.size());
    regions_.push_back({place.space, place.offset, bytes, t, box, early});
  }

  // Something that lands in the shard must land where its elements belong.
  void arrive(const Place& place, std::uint32_t t, const Box& box) {
    const ShardPlace& shard = plan_.shards[t];
    auto position = contiguous_position(box, shard.box, size_of(t));
    if (!position || place.offset != shard.offset + *position)
      wrong(t, "lands at the wrong place " + box.text());
    v_.arrivals_[t].add(box);
  }

  // True if a region of this round holds `from_box` densely at `place`; `early`: before the transfers.
  bool is_there(const Place& place, std::uint32_t t, const Box& from_box, bool early) const {
    auto found = of_tensor_.find(t);
    if (found == of_tensor_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](std::size_t i) {
      const Region& region = regions_[i];
      if (region.space != place.space || (early && !region.early)) return false;
      auto position = contiguous_position(from_box, region.box, size_of(t));
      return position && place.offset == region.offset + *position;
    });
  }

  // A baseline keeps whole tensors: a part of one lies where it would lie in the whole.
  Whole& whole(const Place& place, std::uint32_t t, std::uint64_t element) {
    auto& wholes = place.space == Space::keep ? v_.kept_ : staged_;
    std::uint64_t base = place.offset - element * size_of(t);
    Whole& out = wholes.try_emplace(t, Whole{place.space, base, {}}).first->second;
    if (out.space != place.space || out.base != base) wrong(t, "a part apart from the rest of its tensor");
    return out;
  }

  void check_read(const ReadItem& read) {
    known(read.tensor);
    const TensorMeta& tensor = v_.index_.tensors[read.tensor];
    calls_.resize(round_.steps.size());
    if (read.step >= calls_.size() || read.step < last_step_ ||
        round_.steps[read.step].tensor != read.tensor ||
        ++calls_[read.step] > round_.steps[read.step].calls) {
      wrong(read.tensor, "a read outside the round's steps");
    }
    last_step_ = read.step;
    if (!inside(read.box, whole_of(read.tensor))) wrong(read.tensor, "reads beyond the tensor");
    std::uint64_t elements = read.box.elements();
    limit(read.tensor, elements * std::max<std::uint64_t>(size_of(read.tensor), dtype_size(tensor.dtype)));
    if (tensor.storage != StorageKind::fill || baseline_) v_.reads_[read.tensor].add(read.box);
    if (read.to.space == Space::shard) {
      arrive(read.to, read.tensor, read.box);
      read_in_place_[read.tensor].add(read.box);
    }
    hold(read.to, read.tensor, elements * size_of(read.tensor), read.box, true);
    if (baseline_ && read.to.space != Space::shard) {
      auto position = contiguous_position(read.box, whole_of(read.tensor), 1);
      if (!position) wrong(read.tensor, "a strided read");
      whole(read.to, read.tensor, *position).held.add(read.box);
    }
  }

  void check_pack(const CopyItem& pack) {
    known(pack.tensor);
    if (!inside(pack.box, pack.from_box) || !(pack.to_box == pack.box) || pack.to.space != Space::stage ||
        !is_there(pack.from, pack.tensor, pack.from_box, true)) {
      wrong(pack.tensor, "packs what is not there " + pack.box.text());
    }
    hold(pack.to, pack.tensor, pack.box.elements() * size_of(pack.tensor), pack.box, true);
  }

  // Every message of a pair is numbered within the round, on both sides.
  std::uint64_t message(std::uint64_t from, std::uint64_t to, std::uint64_t sequence,
                        const FillItem& fill) const {
    std::uint64_t hash = mix_hash(mix_hash(mix_hash(mix_hash(1, from), to), number_), sequence);
    return hash_box(mix_hash(mix_hash(hash, fill.tensor), fill.bytes), fill.box);
  }

  void check_fill(const FillItem& fill) {
    known(fill.tensor);
    limit(fill.tensor, fill.bytes);
    bool pair = fill.kind == FillItem::Kind::send || fill.kind == FillItem::Kind::receive;
    if (!pair) return check_collective(fill);
    if (fill.bytes != fill.box.elements() * size_of(fill.tensor))
      wrong(fill.tensor, "a message of another size");
    if (fill.peer == plan_.rank || fill.peer >= v_.layout_.mesh().ranks())
      wrong(fill.tensor, "a message to no rank");
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

  void check_collective(const FillItem& fill) {
    if (fill.group >= plan_.groups.size()) wrong(fill.tensor, "a collective of no group");
    const std::vector<int>& group = plan_.groups[fill.group];
    auto self = std::find(group.begin(), group.end(), static_cast<int>(plan_.rank));
    if (self == group.end()) wrong(fill.tensor, "a collective of a group it is not in");
    auto me = static_cast<std::uint64_t>(self - group.begin());
    std::uint64_t item =
        mix_hash(mix_hash(mix_hash(static_cast<std::uint64_t>(fill.kind), fill.tensor), fill.bytes), number_);
    item = mix_hash(mix_hash(mix_hash(item, fill.part), fill.peer), fill.range.begin);
    v_.chains_[fill.group] = mix_hash(v_.chains_[fill.group], item);
    std::uint64_t size = size_of(fill.tensor);
    if (fill.range.empty() || fill.bytes != fill.range.size() * size)
      wrong(fill.tensor, "a collective of another size");
    fill.kind == FillItem::Kind::all_gather ? check_all_gather(fill, me, group.size())
                                            : check_broadcast(fill, me, group.size());
  }

  void check_all_gather(const FillItem& fill, std::uint64_t me, std::uint64_t members) {
    const ShardPlace& shard = plan_.shards[fill.tensor];
    std::uint64_t size = size_of(fill.tensor);
    if (fill.at.space != Space::shard || fill.range.end > shard.box.elements() ||
        fill.at.offset != shard.offset + fill.range.begin * size || fill.part == 0 || fill.part % size != 0) {
      wrong(fill.tensor, "an all-gather at the wrong place");
    }
    std::uint64_t length = fill.range.size();
    std::uint64_t part = std::min(length, fill.part / size);
    if (part < ceil_div(length, members)) wrong(fill.tensor, "an all-gather that leaves a gap");
    FlatRange own{fill.range.begin + std::min(length, me * part),
                  fill.range.begin + std::min(length, (me + 1) * part)};
    for (const FlatRange& range :
         {FlatRange{fill.range.begin, own.begin}, FlatRange{own.end, fill.range.end}}) {
      for (const Box& box : flat_boxes_in(shard.box, range)) v_.arrivals_[fill.tensor].add(box);
    }
    Coverage& gathered = gathered_[fill.tensor];
    for (const Box& box : flat_boxes_in(shard.box, own)) gathered.add(box);
  }

  void check_broadcast(const FillItem& fill, std::uint64_t me, std::uint64_t members) {
    Shape shape = v_.index_.tensors[fill.tensor].shape;
    if (fill.peer >= members || fill.range.end > shape.elements() || fill.at.space == Space::shard ||
        !baseline_) {
      wrong(fill.tensor, "a broadcast of what is not there");
    }
    Whole& of = whole(fill.at, fill.tensor, fill.range.begin);
    if (fill.peer == me) {
      if (!of.held.is_exactly(whole_of(fill.tensor)))
        wrong(fill.tensor, "a broadcast of what has not been read");
      return;
    }
    hold(fill.at, fill.tensor, fill.bytes, Box{}, false);
    for (const Box& box : flat_boxes(shape, fill.range)) of.held.add(box);
  }

  void check_unpack(const CopyItem& copy) {
    known(copy.tensor);
    const ShardPlace& shard = plan_.shards[copy.tensor];
    if (!inside(copy.box, copy.from_box) || !inside(copy.box, shard.box) || !(copy.to_box == shard.box) ||
        copy.to.space != Space::shard || copy.to.offset != shard.offset) {
      wrong(copy.tensor, "unpacks to the wrong place " + copy.box.text());
    }
    bool there = false;
    if (baseline_) {
      Box all = whole_of(copy.tensor);
      there = copy.from.space != Space::shard && copy.from_box == all &&
              whole(copy.from, copy.tensor, 0).held.is_exactly(all);
    } else {
      there = is_there(copy.from, copy.tensor, copy.from_box, false);
    }
    if (!there) wrong(copy.tensor, "unpacks what is not there " + copy.box.text());
    v_.arrivals_[copy.tensor].add(copy.box);
  }

  void check_overlaps() {
    std::vector<std::size_t> order(regions_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(regions_[a].space, regions_[a].offset) <
             std::tie(regions_[b].space, regions_[b].offset);
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Region& before = regions_[order[i - 1]];
      const Region& region = regions_[order[i]];
      if (region.space == before.space && region.offset < before.offset + before.bytes) {
        wrong(region.tensor, "two things at one place");
      }
    }
  }

  Validator& v_;
  const LoadPlan& plan_;
  std::size_t number_;
  const Round& round_;
  bool baseline_;
  std::vector<std::uint32_t> calls_;  // per step
  std::uint32_t last_step_ = 0;
  std::vector<Region> regions_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> of_tensor_;
  std::unordered_map<std::uint32_t, Whole> staged_;
  std::unordered_map<std::uint32_t, Coverage> read_in_place_, gathered_;
  std::unordered_map<std::uint64_t, std::uint64_t> sends_, receives_;
};

Validator::Validator(const TensorIndex& index, const Layout& layout, const PlanParams& params)
    : index_(index),
      layout_(layout),
      params_(params),
      added_(layout.mesh().ranks()),
      reads_(index.tensors.size()) {
  for (const TensorMeta& tensor : index.tensors) resolved_.push_back(layout.resolve(tensor));
}

void Validator::wrong(const LoadPlan& plan, std::size_t round, std::uint32_t tensor,
                      const std::string& what) const {
  fail(Status::internal, "the plan is wrong: rank {}, round {}, tensor {}: {}", plan.rank, round,
       tensor < index_.tensors.size() ? printable(index_.tensors[tensor].name) : "?", what);
}

void Validator::add(const LoadPlan& plan) {
  std::size_t tensors = index_.tensors.size();
  if (plan.rank >= added_.size() || added_[plan.rank])
    wrong(plan, 0, 0, "a rank that is not there, or twice");
  added_[plan.rank] = true;
  if (plan.shards.size() != tensors || plan.dtypes.size() != tensors || plan.replicas.size() != tensors) {
    wrong(plan, 0, 0, "another number of tensors");
  }
  check_shards(plan);
  check_budget(plan);
  check_outline(plan);
  arrivals_.assign(tensors, Coverage{});
  kept_.clear();
  chains_.assign(plan.groups.size(), 0);
  for (std::size_t r = 0; r < plan.rounds.size(); ++r) RoundCheck(*this, plan, r).run();
  for (std::size_t g = 0; g < chains_.size(); ++g) {
    std::uint64_t identity = mix_hash(g, 7);
    for (int member : plan.groups[g]) identity = mix_hash(identity, static_cast<std::uint64_t>(member));
    GroupRecord& record =
        groups_.try_emplace(identity, GroupRecord{chains_[g], 0, plan.groups[g].size()}).first->second;
    if (record.chain != chains_[g])
      wrong(plan, 0, 0, "it disagrees with another member of its group on a transfer");
    ++record.seen;
  }
  for (std::uint32_t t = 0; t < tensors; ++t) {
    if (!arrivals_[t].is_exactly(plan.shards[t].box)) {
      wrong(plan, plan.rounds.size(), t, "some element of the shard does not arrive exactly once");
    }
  }
}

// Shards: the layout's box, in places of their own, in order; and who else has the same.
void Validator::check_shards(const LoadPlan& plan) const {
  Dims coordinate = layout_.mesh().coordinate(plan.rank);
  std::uint64_t end = 0;
  for (std::uint32_t t = 0; t < index_.tensors.size(); ++t) {
    const ShardPlace& shard = plan.shards[t];
    if (!(shard.box == local_box(index_.tensors[t].shape, layout_.mesh(), resolved_[t], coordinate))) {
      wrong(plan, 0, t, "the shard is not the layout's");
    }
    if (plan.dtypes[t] != final_dtype(index_.tensors[t], params_.cast)) wrong(plan, 0, t, "another dtype");
    if (shard.bytes != shard.box.elements() * dtype_size(plan.dtypes[t]) || shard.offset < end) {
      wrong(plan, 0, t, "shards overlap");
    }
    end = shard.offset + shard.bytes;
    std::uint32_t mask = replica_mask(layout_.mesh(), resolved_[t]);
    std::int32_t group = plan.replicas[t];
    bool named = group >= 0 && static_cast<std::size_t>(group) < plan.groups.size() &&
                 plan.groups[static_cast<std::size_t>(group)] == ranks_along(layout_.mesh(), mask, plan.rank);
    if (mask == 0 ? group != -1 : !named) wrong(plan, 0, t, "its replicas are others");
  }
  if (end > plan.shard_bytes) wrong(plan, 0, 0, "the shard space is too small");
}

void Validator::check_budget(const LoadPlan& plan) const {
  if (plan.every_rank_reads != (params_.strategy == "every-rank"))
    wrong(plan, 0, 0, "it misstates who reads");
  if (is_baseline(params_.strategy)) {
    if (plan.rounds_at_once != 1)
      wrong(plan, 0, 0, fmt::format("{} rounds under way at once", plan.rounds_at_once));
    return;
  }
  std::optional<StagingSplit> split = split_staging(params_, converts_any(index_, params_.cast));
  if (!split || plan.rounds_at_once < 1 || plan.rounds_at_once > split->rounds || plan.keep_bytes != 0 ||
      plan.stage_bytes > split->round_bytes) {
    wrong(plan, 0, 0,
          fmt::format("{} of staging for each of {} rounds do not fit the budget of {}",
                      format_bytes(plan.stage_bytes), plan.rounds_at_once, format_bytes(params_.staging)));
  }
}

// What has to be the same on all ranks.
void Validator::check_outline(const LoadPlan& plan) {
  std::uint64_t outline = mix_hash(0, plan.rounds_at_once);
  for (const Round& round : plan.rounds) {
    for (const ReadStep& step : round.steps) outline = mix_hash(mix_hash(outline, step.tensor), step.calls);
    outline = mix_hash(outline, round.communicates ? ~std::uint64_t{0} : ~std::uint64_t{1});
  }
  if (plans_ == 0) {
    rounds_ = plan.rounds.size();
    outline_ = outline;
  } else if (rounds_ != plan.rounds.size() || outline_ != outline) {
    wrong(plan, 0, 0, "its rounds differ from those of other ranks");
  }
  ++plans_;
}

void Validator::finish() const {
  std::uint64_t ranks = layout_.mesh().ranks();
  if (plans_ != ranks)
    fail(Status::internal, "the plan is wrong: {} of {} ranks were checked", plans_, ranks);
  if (sent_ != received_)
    fail(Status::internal, "the plan is wrong: messages sent and received do not match");
  std::uint64_t times = params_.strategy == "every-rank" ? ranks : 1;
  for (std::size_t t = 0; t < reads_.size(); ++t) {
    bool in_file = index_.tensors[t].storage != StorageKind::fill || is_baseline(params_.strategy);
    Box whole = whole_box(index_.tensors[t].shape);
    if (!reads_[t].is_exactly(whole, in_file ? times : 0)) {
      fail(Status::internal, "the plan is wrong: tensor {} is not read exactly {} time(s)",
           printable(index_.tensors[t].name), times);
    }
  }
  for (const auto& [identity, record] : groups_) {
    if (record.seen != record.members)
      fail(Status::internal, "the plan is wrong: a group's members name different groups");
  }
}

}  // namespace slabload
