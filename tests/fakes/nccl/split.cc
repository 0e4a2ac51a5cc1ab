#include "split.h"

#include <algorithm>
#include <vector>

#include "../cuda/hooks.h"
#include "handle.h"
#include "names.h"

namespace fakenccl {

Split::Split(std::shared_ptr<Communicator> parent, int color, int key, Options options, ncclComm_t* result)
    : parent_(std::move(parent)),
      number_(parent_->next_split++),
      color_(color),
      options_(options),
      result_(result) {
  SplitSide& own = side(parent_->rank());
  own.color = color;
  own.key = key;
  own.posted.store(number_ + 1);
  parent_->note_progress();
}

SplitSide& Split::side(int rank) const {
  return parent_->shared().rank(rank).splits[number_ % 2];
}

bool Split::all_posted() const {
  for (int rank = 0; rank < parent_->ranks(); ++rank)
    if (side(rank).posted.load() <= number_) return false;
  return true;
}

std::optional<ncclResult_t> Split::join() {
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int rank = 0; rank < parent_->ranks(); ++rank)
    if (side(rank).color == color_) members.emplace_back(side(rank).key, rank);
  std::sort(members.begin(), members.end());
  const auto self = std::find_if(members.begin(), members.end(),
                                 [this](const auto& member) { return member.second == parent_->rank(); });
  const int rank = static_cast<int>(self - members.begin());
  SplitSide& first = side(members.front().second);
  if (rank == 0 && first.made.load() <= number_) {
    first.file = make_file();
    first.made.store(number_ + 1);
    parent_->note_progress();
  }
  if (first.made.load() <= number_) return std::nullopt;
  auto child = std::make_shared<Communicator>(static_cast<int>(members.size()), rank, options_, parent_);
  if (const ncclResult_t result = child->charge(); result != ncclSuccess) return result;
  child_ = std::move(child);
  if (members.size() == 1) fakecuda_count("single_rank_communicators", 1);
  const ncclResult_t result = child_->join(first.file);
  return result == ncclSuccess ? std::nullopt : std::optional(result);
}

std::optional<ncclResult_t> Split::advance() {
  if (!all_posted()) return std::nullopt;
  if (color_ == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  if (!child_)
    if (const auto result = join()) return result;
  if (!child_) return std::nullopt;
  const auto result = child_->all_joined();
  if (result != ncclSuccess) return result;
  *result_ = add_handle(child_);
  // The parent is done, but the child is only just being set up.
  if (!options_.blocking)
    child_->begin([]() -> std::optional<ncclResult_t> { return ncclSuccess; },
                  [] { return std::string("the end of its ncclCommSplit"); });
  return result;
}

std::string Split::waits_for() const {
  std::string missing;
  for (int rank = 0; rank < parent_->ranks(); ++rank)
    if (side(rank).posted.load() <= number_) missing += text("%s%d", missing.empty() ? "" : ", ", rank);
  return text("ncclCommSplit #%llu of %s for %s%s", static_cast<unsigned long long>(number_),
              parent_->name().c_str(), missing.empty() ? "its members to join" : "ranks ", missing.c_str());
}

}  // namespace fakenccl
