#include "pinned.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "violation.h"

namespace fakecuda {
namespace {

constexpr int zone_byte = 0xC3;
constexpr int fresh_byte = 0xA5;
constexpr std::byte in_flight_byte{0xD9};

PinnedMemory* kept = nullptr;

// Mapped are a page that nobody may touch, the block up to the end of its last page, and such a page again.
std::uint64_t guarded_begin(const Block& block) {
  return block.begin - page;
}
std::uint64_t guarded_bytes(const Block& block) {
  return page_ceil(block.bytes) + 2 * page;
}

}  // namespace

PinnedMemory& pinned_memory() {
  if (!kept) kept = new PinnedMemory;
  return *kept;
}

PinnedMemory* pinned_memory_if_used() {
  return kept;
}

std::uint64_t PinnedMemory::allocate(std::uint64_t bytes) {
  const std::uint64_t whole = page_ceil(bytes);
  const std::uint64_t begin = arena_.take(whole + 2 * page) + page;
  blocks_.add(begin, bytes);
  arena_.protect(begin, whole, PROT_READ | PROT_WRITE);
  std::memset(arena_.alias(begin), fresh_byte, bytes);
  std::memset(arena_.alias(begin + bytes), zone_byte, whole - bytes);
  return begin;
}

void PinnedMemory::free(std::uint64_t address) {
  Block& block = blocks_.to_free(address, "cudaFreeHost");
  // Some are left only after a failure.
  std::erase_if(flights_, [&](const auto& entry) { return entry.first - block.begin < block.bytes; });
  check_tail(block);
  blocks_.end(block);
  arena_.protect(block.begin, page_ceil(block.bytes), PROT_NONE);
  arena_.release(guarded_begin(block), guarded_bytes(block));
}

// Calls visit for every flight that has a byte of [begin, end).
template <typename Visit>
void PinnedMemory::visit(std::uint64_t begin, std::uint64_t end, const Visit& visit) {
  const auto last = flights_.lower_bound(end);
  for (auto at = flights_.lower_bound(begin > longest_ ? begin - longest_ : 0); at != last; ++at)
    if (at->second->end > begin) visit(*at->second);
}

void PinnedMemory::add_edge(Flight& flight, std::uint64_t begin, std::uint64_t end) {
  std::byte* const bytes = arena_.alias(begin);
  Flight::Edge edge{begin, {}, {}};
  if (flight.target) std::fill(bytes, bytes + (end - begin), in_flight_byte);
  edge.expected.assign(bytes, bytes + (end - begin));
  flight.edges.push_back(std::move(edge));
}

void PinnedMemory::begin_flight(const Region& region, bool target,
                                const std::shared_ptr<const Label>& label) {
  if (region.rows == 0 || region.width == 0) return;
  const Region rows = region.merged();
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    auto flight = std::make_shared<Flight>();
    flight->begin = rows.row(i);
    flight->end = flight->begin + rows.width;
    flight->target = target;
    flight->label = label;
    visit(flight->begin, flight->end, [&](Flight& other) {
      if (!other.target && !target) return;
      stop_watching(other);
      flight->watched = false;
    });
    if (flight->watched) {
      const std::uint64_t first_page_end = std::min(flight->end, page_floor(flight->begin) + page);
      if (flight->begin % page != 0 || first_page_end % page != 0)
        add_edge(*flight, flight->begin, first_page_end);
      if (flight->end > first_page_end && flight->end % page != 0)
        add_edge(*flight, page_floor(flight->end), flight->end);
    }
    longest_ = std::max(longest_, rows.width);
    flights_.emplace(flight->begin, flight);
  }
  protect_pages(rows.begin, rows.end());
}

void PinnedMemory::check_edges(const Flight& flight) {
  if (!flight.watched) return;
  for (const Flight::Edge& edge : flight.edges) {
    const std::byte* const now = arena_.alias(edge.begin);
    const auto changed = std::mismatch(edge.expected.begin(), edge.expected.end(), now);
    if (changed.first == edge.expected.end()) continue;
    const std::uint64_t at = edge.begin + static_cast<std::uint64_t>(changed.first - edge.expected.begin());
    violation("in flight: the host wrote to %s while %s had it in flight", blocks_.describe(at).c_str(),
              flight.label->text().c_str());
  }
}

void PinnedMemory::publish(Flight& flight) {
  for (Flight::Edge& edge : flight.edges) {
    std::copy(edge.result.begin(), edge.result.end(), arena_.alias(edge.begin));
    edge.result.clear();
  }
}

void PinnedMemory::stop_watching(Flight& flight) {
  check_edges(flight);
  publish(flight);
  flight.watched = false;
}

void PinnedMemory::read(std::uint64_t begin, std::byte* to, std::uint64_t bytes) {
  visit(begin, begin + bytes, [&](Flight& flight) { check_edges(flight); });
  std::memcpy(to, arena_.alias(begin), bytes);
}

void PinnedMemory::write(std::uint64_t begin, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t end = begin + bytes;
  visit(begin, end, [&](Flight& flight) { check_edges(flight); });
  std::memcpy(arena_.alias(begin), from, bytes);
  // At the edges the host finds poison until it has learned that the copy has ended: see release().
  visit(begin, end, [&](Flight& flight) {
    if (!flight.watched || !flight.target) return;
    for (Flight::Edge& edge : flight.edges) {
      const std::uint64_t low = std::max(begin, edge.begin);
      const std::uint64_t high = std::min(end, edge.begin + edge.expected.size());
      if (low >= high) continue;
      edge.result.resize(edge.expected.size(), in_flight_byte);
      std::memcpy(edge.result.data() + (low - edge.begin), from + (low - begin), high - low);
      std::memset(arena_.alias(low), std::to_integer<int>(in_flight_byte), high - low);
    }
  });
}

void PinnedMemory::release(const Clock& host) {
  std::vector<std::shared_ptr<Flight>> ended;
  for (auto at = flights_.begin(); at != flights_.end();) {
    if (!host.covers(*at->second->label)) {
      ++at;
      continue;
    }
    ended.push_back(at->second);
    at = flights_.erase(at);
  }
  if (flights_.empty()) longest_ = 0;
  for (const auto& flight : ended) {
    check_edges(*flight);
    publish(*flight);
    protect_pages(flight->begin, flight->end);
  }
  blocks_.forget(host);
}

// What the host may do with a page: nothing if targets have all of it, only read if flights have all of it.
// Behind the end of a block there is nothing for the host anyway.
int PinnedMemory::protection_of(std::uint64_t page_begin) {
  const Block* const block = blocks_.before(page_begin);
  const std::uint64_t page_end = std::min(page_begin + page, block->end());
  RangeSet flown, targets;
  visit(page_begin, page_end, [&](const Flight& flight) {
    flown.add(flight.begin, flight.end);
    if (flight.target) targets.add(flight.begin, flight.end);
  });
  if (targets.first_missing(page_begin, page_end) == page_end) return PROT_NONE;
  if (flown.first_missing(page_begin, page_end) == page_end) return PROT_READ;
  return PROT_READ | PROT_WRITE;
}

void PinnedMemory::protect_pages(std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t last = page_ceil(end);
  std::uint64_t run_begin = page_floor(begin);
  int run = protection_of(run_begin);
  for (std::uint64_t at = run_begin + page; at < last; at += page) {
    const int next = protection_of(at);
    if (next == run) continue;
    arena_.protect(run_begin, at - run_begin, run);
    run_begin = at;
    run = next;
  }
  arena_.protect(run_begin, last - run_begin, run);
}

const Flight* PinnedMemory::flight_at(std::uint64_t address) const {
  for (const auto& [begin, flight] : flights_)
    if (address >= flight->begin && address < flight->end) return flight.get();
  return nullptr;
}

void PinnedMemory::check_tail(const Block& block) {
  const std::byte* const alias = arena_.alias(block.end());
  for (std::uint64_t i = 0; i < page_ceil(block.end()) - block.end(); ++i)
    if (alias[i] != std::byte{zone_byte})
      violation("out of bounds: the host wrote behind %s, at offset %zu of it", blocks_.name(block).c_str(),
                std::size_t{block.bytes + i});
}

void PinnedMemory::check_red_zones() {
  blocks_.each_live([&](const Block& block) { check_tail(block); });
}

}  // namespace fakecuda
