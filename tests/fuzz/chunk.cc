// A stored chunk: three bytes say which filters made it, then an element's size, a mask, the chunk's size, and its stored bytes.
#include <cstring>
#include <vector>

#include "backend/host/chunk_filters.h"
#include "fuzz/fuzz.h"

using slabload::fuzz::must;
using slabload::host::ChunkFilters;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHead = 7, kGuard = 64;
  if (size < kHead) return 0;
  std::vector<ChunkFilters::Filter> filters;
  for (std::size_t i = 0; i < 3; ++i) {
    if (data[i] % 4 < 3) filters.push_back({static_cast<ChunkFilters::Kind>(data[i] % 4), data[3]});
  }
  const std::size_t bytes = 1 + data[5] + 256 * (data[6] % 16);
  const auto undo = ChunkFilters::of(filters, bytes);
  if (!undo) return 0;
  // Blocks of their own: what is read or written beside them is seen, by the sanitizer or by what lies behind.
  std::vector<std::byte> stored(size - kHead), chunk(bytes + kGuard, std::byte{0x5a}), again(bytes);
  slabload::host::FilterScratch scratch;
  if (!stored.empty()) std::memcpy(stored.data(), data + kHead, stored.size());
  const std::string reason = undo->undo(stored, data[4], std::span(chunk).first(bytes), scratch);
  for (std::size_t i = 0; i < kGuard; ++i) must(chunk[bytes + i] == std::byte{0x5a}, "nothing is written behind the chunk");
  must(undo->undo(stored, data[4], again, scratch) == reason, "the same again");
  must(!reason.empty() || std::memcmp(chunk.data(), again.data(), bytes) == 0, "the same bytes again");
  return 0;
}
