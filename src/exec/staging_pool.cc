#include "exec/staging_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/narrow.h"

namespace slabload {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMostUses = 24;  // a device remembers 64 marks, and each use has two

}  // namespace

StagingPool::StagingPool(Device& device, std::uint64_t slots, std::uint64_t slot_bytes,
                         std::function<void(Mark)> wait, std::function<void(Span, std::uint64_t)> copied)
    : device_(device),
      slots_(slots),
      slot_bytes_(slot_bytes),
      memory_(device.allocate_staging(slots * slot_bytes, "the staging slots")),
      wait_(std::move(wait)),
      copied_(std::move(copied)) {}

void StagingPool::take_slots(std::uint64_t count) {
  std::uint64_t first = first_ + count_;
  if (first + count > slots_) first = 0;
  auto in_the_way = [&](const Use& use) {
    return use.first < first + count && first < use.first + use.count;
  };
  // Uses end in their order: what is in the way is waited for together with all before it.
  while (std::any_of(uses_.begin(), uses_.end(), in_the_way)) retire_oldest();
  first_ = first;
  count_ = count;
  filled_ = 0;
}

std::byte* StagingPool::acquire(std::uint64_t bytes) {
  if (bytes > capacity()) fail(Status::internal, "a read of {} bytes does not fit the staging slots", bytes);
  if (count_ == 0 || filled_ + bytes > slot_bytes_)
    take_slots(std::max<std::uint64_t>(1, ceil_div(bytes, slot_bytes_)));
  if (uses_.size() >= kMostUses) retire_oldest();
  open_ = {first_, count_, bytes, 0, 0};
  std::byte* room = memory_->data() + first_ * slot_bytes_ + filled_;
  filled_ += align_up(bytes, kPage);
  return room;
}

void StagingPool::release() {
  open_.begin = begin_;
  open_.end = device_.mark();
  uses_.push_back(open_);
}

void StagingPool::retire_oldest() {
  Use use = uses_.front();
  wait_(use.end);
  uses_.pop_front();
  copied_({device_.passed(use.begin).value_or(0), device_.passed(use.end).value_or(0)}, use.bytes);
}

void StagingPool::drain() {
  while (!uses_.empty()) retire_oldest();
}

}  // namespace slabload
