// The ring of slots that reads land in on their way to a device.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "backend/device.h"
#include "backend/fabric.h"

namespace slabload {

class StagingPool {
 public:
  // Allocates all slots at once. No slots: acquire() may not be called. `wait(mark)` returns when the
  // device's queue has passed the mark; `copied(span, bytes)` is told when the copies out of a slot were
  // under way.
  StagingPool(Device& device, std::uint64_t slots, std::uint64_t slot_bytes, std::function<void(Mark)> wait,
              std::function<void(Span, std::uint64_t)> copied);

  // Room for `bytes` bytes, page-aligned: in what the slot last given out has left, or else in the next slot
  // (for more bytes than a slot holds, in as many neighbours as that takes), after waiting until what was
  // copied out of there is gone. At most capacity(). Valid until released.
  std::byte* acquire(std::uint64_t bytes);

  // Call before and after the copies out of what acquire() gave have been put into the queue.
  void begin_copies() { begin_ = device_.mark(); }
  void release();

  // Waits for all copies; nothing is held then.
  void drain();

  std::uint64_t slot_bytes() const { return slot_bytes_; }
  std::uint64_t capacity() const { return slots_ * slot_bytes_; }

 private:
  struct Use {
    std::uint64_t first, count;  // slots
    std::uint64_t bytes;
    Mark begin, end;
  };
  void retire_oldest();
  void take_slots(std::uint64_t count);

  Device& device_;
  std::uint64_t slots_, slot_bytes_;
  std::unique_ptr<DeviceMemory> memory_;
  std::function<void(Mark)> wait_;
  std::function<void(Span, std::uint64_t)> copied_;
  std::deque<Use> uses_;                 // in the order of their marks
  std::uint64_t first_ = 0, count_ = 0;  // the slots last given out
  std::uint64_t filled_ = 0;             // bytes of them
  Use open_{};
  Mark begin_ = 0;
};

}  // namespace slabload
