// The way of bytes from a file to their place: read, byte order, checksum, conversion, copy.
#pragma once

#include "exec/load_run.h"
#include "exec/staging_pool.h"

namespace slabload {

// True if a tensor is read by all ranks together: the same on all of them. What is converted is not, since
// its pieces differ.
bool read_together(const LoadRun& run, std::uint32_t tensor);

// What all slots together should hold, in bytes, for no compressed chunk of this rank to be decoded more than
// once, and the tensor that needs so much; 0 if they do.
struct SlotNeed {
  std::uint64_t bytes = 0;
  std::uint32_t tensor = kNoTensor;
};
SlotNeed needed_of_slots(const LoadRun& run);

class ReadPath {
 public:
  // Allocates the slots and the scratch. `run` outlives it.
  explicit ReadPath(LoadRun& run);

  // Reads what the round has for this rank; copies may still be under way afterwards. Collective if the
  // storage reads collectively. Throws an Error that is this rank's alone.
  void read(const Round& round, std::size_t number);

  // The tensor that read() was at.
  std::uint32_t tensor() const { return tensor_; }

  // Waits until every copy has ended.
  void drain() { pool_.drain(); }

 private:
  void read_step(const Round& round, std::size_t step, std::size_t& next, std::size_t number);
  void read_item(const ReadItem& item, std::byte* out);
  std::size_t joined_end(const Round& round, std::size_t first) const;
  void read_joined(const Round& round, std::size_t first, std::size_t end, std::size_t number);
  void read_box(std::uint32_t tensor, const Box& box, std::byte* landing);
  void take_in(std::uint32_t tensor, const Box& box, std::byte* landed);
  void deliver(std::uint32_t tensor, const Box& box, std::byte* landed, std::byte* out);
  std::uint64_t final_checksum(std::uint32_t tensor, const Box& box, const std::byte* landed) const;
  // True if a tensor's reads land in their final place.
  bool in_place(std::uint32_t tensor) const { return host_ && !run_.converts(tensor); }

  LoadRun& run_;
  const bool host_;
  std::uint32_t tensor_ = kNoTensor;
  StagingPool pool_;
  std::unique_ptr<DeviceMemory> scratch_;
};

}  // namespace slabload
