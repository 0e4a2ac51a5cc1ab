// Pinned memory of the host, and its protection while copies have it in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arena.h"
#include "blocks.h"
#include "order.h"

namespace fakecuda {

// A range that an asynchronous copy reads (a source) or writes (a target), from when the copy is put in until
// the host has learned that it ended.
//
// Whole pages in flight are protected. The host may use the rest of a page of which only a part is in flight;
// what lies in such a page, an edge, is watched instead: of a source the bytes must stay what they were; a
// target holds poison until the host has learned of the end, and must hold it then.
struct Flight {
  struct Edge {
    std::uint64_t begin = 0;
    std::vector<std::byte> expected;  // what the host must leave there
    std::vector<std::byte> result;    // of a target, once the copy has run
  };
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool target = false;
  bool watched = true;  // false where flights overlap, so that the contents of edges tell nothing
  std::shared_ptr<const Label> label;
  std::vector<Edge> edges;
};

class PinnedMemory {
 public:
  // Whole pages.
  std::uint64_t allocate(std::uint64_t bytes);
  void free(std::uint64_t address);

  bool holds(std::uint64_t address) const { return arena_.holds(address); }
  Blocks& blocks() { return blocks_; }

  // A copy has been put in that uses the rows of `region`, which lies in one block.
  void begin_flight(const Region& region, bool target, const std::shared_ptr<const Label>& label);
  // The copy runs: its source, or its target.
  void read(std::uint64_t begin, std::byte* to, std::uint64_t bytes);
  void write(std::uint64_t begin, const std::byte* from, std::uint64_t bytes);
  // Ends the flights that the host knows to have ended.
  void release(const Clock& host);

  // The flight that has this byte, or null.
  const Flight* flight_at(std::uint64_t address) const;
  void check_red_zones();

 private:
  using Flights = std::multimap<std::uint64_t, std::shared_ptr<Flight>>;  // by their begin

  template <typename Visit>
  void visit(std::uint64_t begin, std::uint64_t end, const Visit& visit);
  void add_edge(Flight& flight, std::uint64_t begin, std::uint64_t end);
  void check_edges(const Flight& flight);
  void publish(Flight& flight);
  void stop_watching(Flight& flight);
  void protect_pages(std::uint64_t begin, std::uint64_t end);
  int protection_of(std::uint64_t page_begin);
  void check_tail(const Block& block);

  Arena arena_{"slabload-fake-pinned"};
  Blocks blocks_{"pinned"};
  Flights flights_;
  std::uint64_t longest_ = 0;  // flight, while there are any
};

// Made at first use, never destroyed.
PinnedMemory& pinned_memory();
// Null before the first use.
PinnedMemory* pinned_memory_if_used();

}  // namespace fakecuda
