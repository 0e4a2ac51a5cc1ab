#include "plan/validate.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"
#include "plan/round_check.h"
#include "plan/staging.h"

namespace slabload {

Validator::Validator(const TensorIndex& index, const Layout& layout, const PlanParams& params)
    : index_(index),
      layout_(layout),
      params_(params),
      added_(layout.mesh().ranks()),
      reads_(index.tensors.size()),
      given_(index.tensors.size()) {
  resolved_ = layout.resolve(index);
  table_.emplace(index, layout.mesh(), resolved_);
  placed_.resize(index.tensors.size());
  passed_.resize(index.tensors.size());
  passes_on_.resize(index.tensors.size());
  for (const TensorLayout& tensor : resolved_) {
    mask_of_.push_back(replica_mask(layout.mesh(), tensor));
    masks_.insert(mask_of_.back());
  }
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
  blocks_.clear();
  came_.assign(plan.rounds_at_once + 1, Came{std::vector<Coverage>(masks_ == std::set<std::uint32_t>{0} ? 0 : tensors), {}});
  chains_.assign(plan.groups.size(), 0);
  memberships_.clear();
  for (const RankGroup& group : plan.groups) memberships_.push_back({group.find(plan.rank), group.size()});
  for (std::size_t r = 0; r < plan.rounds.size(); ++r) RoundCheck(*this, plan, r).run();
  for (std::size_t g = 0; g < chains_.size(); ++g) {
    if (!plan.groups[g].find(plan.rank)) wrong(plan, 0, 0, "a group that it is not in");
    std::uint64_t identity = mix_hash(mix_hash(g, 7), plan.groups[g].first);
    for (const RankGroup::Axis& axis : plan.groups[g].axes)
      identity = mix_hash(mix_hash(identity, axis.count), axis.stride);
    GroupRecord& record =
        groups_.try_emplace(identity, GroupRecord{chains_[g], 0, plan.groups[g].size()}).first->second;
    if (record.chain != chains_[g])
      wrong(plan, 0, 0, "it disagrees with another member of its group on a transfer");
    ++record.seen;
  }
  for (std::uint32_t t = 0; t < tensors; ++t) {
    if (params_.saving) {
      given_[t].add(arrivals_[t]);
    } else if (!(arrivals_[t] == wanted_[table_->kind(t)])) {
      wrong(plan, plan.rounds.size(), t, "some element of the shard does not arrive exactly once");
    }
  }
}

// Shards: the layout's box, in places of their own, in order; and who else has the same.
void Validator::check_shards(const LoadPlan& plan) {
  const std::vector<Shard> of_kind = table_->shards(plan.rank);
  wanted_.assign(of_kind.size(), Coverage{});
  std::vector<std::uint64_t> elements;
  for (std::size_t k = 0; k < of_kind.size(); ++k) {
    for_each_block(of_kind[k].box, of_kind[k].blocks,
                   [&](const Box& block, const Box&, std::uint64_t) { wanted_[k].add(block); });
    elements.push_back(of_kind[k].box.elements());
  }
  std::uint64_t end = 0;
  std::map<std::uint32_t, RankGroup> groups;
  for (std::uint32_t mask : masks_) groups.emplace(mask, RankGroup::along(layout_.mesh(), mask, plan.rank));
  for (std::uint32_t t = 0; t < index_.tensors.size(); ++t) {
    const ShardPlace& shard = plan.shards[t];
    const Shard& part = of_kind[table_->kind(t)];
    if (!(shard.box == part.box) || !(shard.blocks == part.blocks) || shard.flat != part.flat)
      wrong(plan, 0, t, "the shard is not the layout's");
    if (plan.dtypes[t] != final_dtype(index_.tensors[t], params_.cast)) wrong(plan, 0, t, "another dtype");
    if (shard.bytes != elements[table_->kind(t)] * dtype_size(plan.dtypes[t]) || shard.offset < end) {
      wrong(plan, 0, t, "shards overlap");
    }
    end = shard.offset + shard.bytes;
    const std::uint32_t mask = mask_of_[t];
    std::int32_t group = plan.replicas[t];
    bool named = group >= 0 && static_cast<std::size_t>(group) < plan.groups.size() &&
                 plan.groups[static_cast<std::size_t>(group)] == groups.at(mask);
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
  for (std::size_t t = 0; t < plan.rereads.size(); ++t) outline = mix_hash(outline, plan.rereads[t] ? t + 1 : 0);
  for (const Round& round : plan.rounds) {
    for (const ReadStep& step : round.steps) outline = mix_hash(mix_hash(outline, step.tensor), step.calls);
    outline = mix_hash(outline, round.communicates ? ~std::uint64_t{0} : ~std::uint64_t{1});
    for (const StagedPart& part : round.spread)
      outline = mix_hash(mix_hash(mix_hash(outline, part.tensor), part.range.end), part.offset);
  }
  if (plans_ == 0) {
    rounds_ = plan.rounds.size();
    outline_ = outline;
    rereads_ = plan.rereads;
    check_rereads(plan);
  } else if (rounds_ != plan.rounds.size() || outline_ != outline) {
    wrong(plan, 0, 0, "its rounds differ from those of other ranks");
  }
  ++plans_;
}

// Each byte is read once, but where the user says that the fabric is slow, and there are several to read it.
void Validator::check_rereads(const LoadPlan& plan) const {
  if (plan.rereads.empty()) return;
  if (plan.rereads.size() != index_.tensors.size() || params_.strategy != "auto" || !params_.costs.fabric_rank)
    wrong(plan, 0, 0, "it misstates who reads");
  for (std::uint32_t t = 0; t < plan.rereads.size(); ++t) {
    const TensorMeta& tensor = index_.tensors[t];
    if (plan.rereads[t] && (mask_of_[t] == 0 || tensor.elements() == 0 || tensor.storage == StorageKind::fill))
      wrong(plan, 0, t, "it misstates who reads");
  }
}

void Validator::finish() const {
  std::uint64_t ranks = layout_.mesh().ranks();
  if (plans_ != ranks)
    fail(Status::internal, "the plan is wrong: {} of {} ranks were checked", plans_, ranks);
  if (sent_ != received_)
    fail(Status::internal, "the plan is wrong: messages sent and received do not match");
  for (std::size_t t = 0; t < reads_.size(); ++t) {
    const bool in_file = index_.tensors[t].storage != StorageKind::fill || is_baseline(params_.strategy);
    std::uint64_t times = params_.strategy == "every-rank" ? ranks : 1;
    if (!rereads_.empty() && rereads_[t]) times = RankGroup::along(layout_.mesh(), mask_of_[t], 0).size();
    if (!reads_[t].is_exactly(whole_box(index_.tensors[t].shape), in_file ? times : 0)) {
      fail(Status::internal, "the plan is wrong: tensor {} is not read exactly {} time(s)",
           printable(index_.tensors[t].name), times);
    }
    if (params_.saving && !given_[t].is_exactly(whole_box(index_.tensors[t].shape))) {
      fail(Status::internal, "the plan is wrong: some element of tensor {} is not given exactly once",
           printable(index_.tensors[t].name));
    }
  }
  for (const auto& [identity, record] : groups_) {
    if (record.seen != record.members)
      fail(Status::internal, "the plan is wrong: a group's members name different groups");
  }
}

}  // namespace slabload
