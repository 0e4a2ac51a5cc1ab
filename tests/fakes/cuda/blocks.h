// The pieces of memory of one kind that were given out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "order.h"
#include "range_set.h"

namespace fakecuda {

// It is kept after its end, so that later use can be told.
struct Block {
  std::uint64_t number = 0;  // counted from 1
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  bool live = true;
  History history;
  RangeSet written;  // addresses; of device memory

  std::uint64_t end() const { return begin + bytes; }
};

// Functions that are given what a call of the product said end the process if that is wrong.
class Blocks {
 public:
  // `kind` is "device" or "pinned".
  explicit Blocks(const char* kind) : kind_(kind) {}

  void add(std::uint64_t begin, std::uint64_t bytes);
  // The block that the call `function` may now free: it is live, and nothing that the host doesn't know to
  // have ended uses it. After a failure, what can run is run first instead.
  Block& to_free(std::uint64_t address, const char* function);
  void end(Block& block);

  // The live block that holds all of `region`.
  Block& holding(const Region& region, const Label& label);
  // The same, or null.
  Block* find(std::uint64_t address, std::uint64_t bytes);
  // The block that begins last at or before `address`, live or not, or null.
  Block* before(std::uint64_t address);

  template <typename Visit>
  void each_live(const Visit& visit) {
    for (auto& [begin, block] : blocks_)
      if (block.live) visit(block);
  }
  // Drops the accesses that the host knows to have ended.
  void forget(const Clock& host);

  std::uint64_t used() const { return used_; }  // bytes
  std::uint64_t peak() const { return peak_; }

  std::string name(const Block& block) const;   // "device allocation 3 (100 bytes, freed)"
  std::string describe(std::uint64_t address);  // "device allocation 3 (100 bytes), offset 7"
  std::vector<std::string> leaks();

 private:
  const char* kind_;
  std::map<std::uint64_t, Block> blocks_;  // by their begin
  std::uint64_t used_ = 0;
  std::uint64_t peak_ = 0;
};

}  // namespace fakecuda
