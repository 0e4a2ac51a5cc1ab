// The way of bytes from their place to a file: copied out of the device, checked, written.
#pragma once

#include <deque>
#include <memory>

#include "exec/save_run.h"
#include "plan/staging.h"

namespace slabload {

class WritePath {
 public:
  // Allocates the slots that bytes of a device pass through. `run` outlives it.
  WritePath(SaveRun& run, const StagingSplit& staging);

  // Writes what the round has for this rank, whose transfers and copies are done or in the device's queue. Collective if
  // some tensor is written together. Throws an Error that is this rank's alone.
  void write(const Round& round, std::size_t number);

  // The tensor that write() was at.
  std::uint32_t tensor() const { return tensor_; }

 private:
  // Bytes of a tensor.
  struct Part {
    std::uint32_t tensor;
    std::uint64_t offset, bytes;
  };
  // What goes to the file in one request: parts that follow one another there and in memory. At `data` if that is the host's,
  // else in a slot when the mark has passed.
  struct Extent {
    std::vector<Part> parts;
    std::uint64_t bytes = 0;
    const std::byte* data = nullptr;
    Mark copied = 0;
  };
  std::size_t joined_end(const Round& round, std::size_t first, std::size_t number) const;
  void write_item(const ReadItem& item, std::size_t number);
  void write_step(const Round& round, std::size_t step, std::size_t& next, std::size_t number);
  void flush();
  void drain(std::size_t most);
  void put(const Extent& extent);
  void check(const Part& part, const std::byte* data);

  SaveRun& run_;
  const bool host_;
  std::uint32_t tensor_ = kNoTensor;
  std::uint64_t slot_bytes_;
  std::size_t slots_;
  std::size_t next_slot_ = 0;
  std::unique_ptr<DeviceMemory> ring_;
  Extent open_;
  std::deque<Extent> under_way_;  // each in its own slot
};

}  // namespace slabload
