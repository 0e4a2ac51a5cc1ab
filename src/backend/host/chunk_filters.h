// The filters of a stored HDF5 chunk, undone within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace slabload::host {

// Memory that is used again and again; grows as needed.
class ScratchBytes {
 public:
  // `bytes` of it, uninitialised; what it held before is gone if it has to grow.
  std::span<std::byte> of(std::size_t bytes);
  // Frees it if it holds more than `bytes`.
  void shrink(std::size_t bytes);

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

// What undoing filters works in: what one leaves and the next takes. One is enough for any number of ChunkFilters.
struct FilterScratch {
  ScratchBytes a, b;
};

// The library's own pipeline inflates until the compressed stream ends, whatever the chunk should hold. This one writes no byte
// beyond what each filter's place in the pipeline allows, so a stream that expands without end is an error, not memory.
// Formats: HDF5 File Format Specification 3.0, IV.A.2.l (filter pipeline); RFC 1950 for deflate.
class ChunkFilters {
 public:
  enum class Kind { deflate, shuffle, fletcher32 };
  struct Filter {
    Kind kind;
    std::uint32_t element = 1;  // shuffle: bytes of an element
  };

  // In the order in which they were applied; `chunk_bytes` is the size of a chunk without them. Nothing if they can't be undone
  // here: two deflates in a row leave the size between them open.
  static std::optional<ChunkFilters> of(std::vector<Filter> filters, std::uint64_t chunk_bytes);

  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  // No filter lets a chunk grow beyond this.
  std::uint64_t most_stored() const { return chunk_bytes_ + chunk_bytes_ / 64 + 1024; }

  // Undoes the filters of one chunk but those whose bit is set in `skipped` (H5Dread_chunk's filter mask) into `chunk`, of
  // chunk_bytes(). Returns the reason if the stored bytes are not such a chunk; `chunk` then holds nothing of use.
  std::string undo(std::span<const std::byte> stored, std::uint32_t skipped, std::span<std::byte> chunk,
                   FilterScratch& scratch) const;

 private:
  ChunkFilters(std::vector<Filter> filters, std::uint64_t chunk_bytes)
      : filters_(std::move(filters)), chunk_bytes_(chunk_bytes) {}

  std::vector<Filter> filters_;
  std::uint64_t chunk_bytes_;
};

}  // namespace slabload::host
