// Device memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arena.h"
#include "blocks.h"

namespace fakecuda {

class DeviceMemory {
 public:
  // Returns 0 if the limit doesn't allow it. The address is aligned to 256 bytes and to no more.
  std::uint64_t allocate(std::uint64_t bytes);
  void free(std::uint64_t address);

  // NCCL's own. False if the limit doesn't allow it.
  bool charge(std::uint64_t bytes);
  void uncharge(std::uint64_t bytes);

  bool holds(std::uint64_t address) const { return arena_.holds(address); }
  Blocks& blocks() { return blocks_; }
  Arena& arena() { return arena_; }

  // Ends the process if a zone beside a block was written to. Without `all`, looks at those that code other
  // than this library's copies may have written to since the last time.
  void check_red_zones(bool all);
  void suspect(std::uint64_t address);

  std::vector<std::string> leaks();
  std::uint64_t used() const { return blocks_.used() + charged_; }
  std::uint64_t peak() const { return peak_; }

 private:
  bool has_room(std::uint64_t bytes) const;
  void check_zones(const Block& block);

  Arena arena_{"slabload-fake-device"};
  Blocks blocks_{"device"};
  std::vector<std::uint64_t> suspects_;
  std::uint64_t charged_ = 0;
  std::uint64_t peak_ = 0;
};

// Made at first use, never destroyed.
DeviceMemory& device_memory();
// Null before the first use.
DeviceMemory* device_memory_if_used();

}  // namespace fakecuda
