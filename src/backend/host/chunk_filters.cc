#include "backend/host/chunk_filters.h"

#include <fmt/format.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <utility>

#include "base/narrow.h"

namespace slabload::host {
namespace {

constexpr std::size_t kSum = 4;  // bytes of a Fletcher checksum

// Two sums of big-endian 16-bit words modulo 65535, an odd last byte as the upper half of a word.
std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  std::uint64_t first = 0, second = 0;
  auto fold = [](std::uint64_t sum) {
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
  };
  constexpr std::size_t kWords = 1 << 16;  // between folds: the sums stay far below 2^64
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.size(), at + 2 * kWords);
    for (; at + 1 < end; at += 2) {
      first += (std::to_integer<std::uint64_t>(bytes[at]) << 8) | std::to_integer<std::uint64_t>(bytes[at + 1]);
      second += first;
    }
    if (at < end) {
      first += std::to_integer<std::uint64_t>(bytes[at++]) << 8;
      second += first;
    }
    first = fold(first);
    second = fold(second);
  }
  return static_cast<std::uint32_t>(second << 16 | first);
}

bool sum_matches(std::span<const std::byte> bytes, std::span<const std::byte> stored) {
  std::uint32_t want = 0;
  for (std::size_t i = kSum; i-- > 0;) want = want << 8 | std::to_integer<std::uint32_t>(stored[i]);
  const std::uint32_t sum = fletcher32(bytes);
  // Files of HDF5 1.6.2 and before have each half's bytes swapped.
  const std::uint32_t swapped = (sum & 0x00ff00ff) << 8 | (sum >> 8 & 0x00ff00ff);
  return want == sum || want == swapped;
}

template <std::size_t kSize>
void unshuffle(const std::byte* from, std::size_t elements, std::size_t size, std::byte* to) {
  if (kSize != 0) size = kSize;
  for (std::size_t i = 0; i < elements; ++i) {
    for (std::size_t b = 0; b < size; ++b) to[i * size + b] = from[b * elements + i];
  }
}

void unshuffle(std::span<const std::byte> from, std::size_t size, std::span<std::byte> to) {
  const std::size_t elements = size == 0 ? 0 : from.size() / size;
  if (size <= 1 || elements <= 1) {  // nothing was shuffled
    std::copy(from.begin(), from.end(), to.begin());
    return;
  }
  auto* work = size == 2 ? unshuffle<2> : size == 4 ? unshuffle<4> : size == 8 ? unshuffle<8> : unshuffle<0>;
  work(from.data(), elements, size, to.data());
  const std::size_t rest = elements * size;  // what is no whole element lies behind as it is
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(rest), from.end(), to.begin() + static_cast<std::ptrdiff_t>(rest));
}

// Empty, or the reason. `to` is filled.
std::string inflate(std::span<const std::byte> from, std::span<std::byte> to) {
  auto state = std::make_unique<inflate_state>();
  isal_inflate_init(state.get());
  state->crc_flag = ISAL_ZLIB;
  // The interface is not const, the bytes are only read.
  state->next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(from.data()));
  state->avail_in = narrow<std::uint32_t>(from.size());
  state->next_out = reinterpret_cast<std::uint8_t*>(to.data());
  state->avail_out = narrow<std::uint32_t>(to.size());
  const int status = isal_inflate_stateless(state.get());
  switch (status) {
    case ISAL_DECOMP_OK:
      break;
    case ISAL_OUT_OVERFLOW:
      return fmt::format("deflate: expands to more than the {} bytes that belong there", to.size());
    case ISAL_END_INPUT:
      return "deflate: the stored bytes end too early";
    case ISAL_INCORRECT_CHECKSUM:
      return "deflate: the checksum of the decoded bytes is wrong";
    default:
      return fmt::format("deflate: the stored bytes are damaged (isal_inflate_stateless: {})", status);
  }
  if (state->avail_out != 0)
    return fmt::format("deflate: expands to {} of {} bytes", to.size() - state->avail_out, to.size());
  return {};
}

}  // namespace

std::span<std::byte> ScratchBytes::of(std::size_t bytes) {
  if (bytes > size_) {
    data_.reset();
    data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    size_ = bytes;
  }
  return {data_.get(), bytes};
}

void ScratchBytes::shrink(std::size_t bytes) {
  if (size_ <= bytes) return;
  data_.reset();
  size_ = 0;
}

std::optional<ChunkFilters> ChunkFilters::of(std::vector<Filter> filters, std::uint64_t chunk_bytes) {
  const auto deflates = std::count_if(filters.begin(), filters.end(), [](const Filter& f) { return f.kind == Kind::deflate; });
  if (deflates > 1 || filters.size() > 32) return std::nullopt;
  return ChunkFilters(std::move(filters), chunk_bytes);
}

std::string ChunkFilters::undo(std::span<const std::byte> stored, std::uint32_t skipped, std::span<std::byte> chunk,
                               FilterScratch& scratch) const {
  // The bytes before each filter was applied, which after a deflate nobody knows.
  std::vector<std::optional<std::size_t>> before;
  std::optional<std::size_t> size = chunk.size();
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    before.push_back(size);
    if (skipped >> i & 1) continue;
    if (filters_[i].kind == Kind::fletcher32 && size) *size += kSum;
    if (filters_[i].kind == Kind::deflate) size.reset();
  }
  std::span<const std::byte> now = stored;
  ScratchBytes* work[] = {&scratch.a, &scratch.b};  // the first is the one to write to
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (skipped >> i & 1) continue;
    if (filters_[i].kind == Kind::fletcher32) {
      if (now.size() < kSum) return "fletcher32: the stored bytes end too early";
      const auto sum = now.last(kSum);
      now = now.first(now.size() - kSum);
      if (!sum_matches(now, sum)) return "fletcher32: the checksum is wrong";
      continue;
    }
    const std::size_t bytes = before[i].value_or(now.size());
    if (filters_[i].kind == Kind::shuffle && now.size() != bytes)
      return fmt::format("shuffle: {} bytes where {} belong", now.size(), bytes);
    bool last = bytes == chunk.size();  // nothing writes after this
    for (std::size_t j = 0; j < i; ++j) last &= (skipped >> j & 1) != 0 || filters_[j].kind == Kind::fletcher32;
    std::span<std::byte> to = last ? chunk : work[0]->of(bytes);
    std::swap(work[0], work[1]);
    if (filters_[i].kind == Kind::shuffle) {
      unshuffle(now, filters_[i].element, to);
    } else if (std::string reason = inflate(now, to); !reason.empty()) {
      return reason;
    }
    now = to;
  }
  if (now.size() != chunk.size()) return fmt::format("{} bytes where a chunk has {}", now.size(), chunk.size());
  if (now.data() != chunk.data()) std::copy(now.begin(), now.end(), chunk.begin());
  return {};
}

}  // namespace slabload::host
