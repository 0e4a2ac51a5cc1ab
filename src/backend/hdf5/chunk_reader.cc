#include "backend/hdf5/chunk_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/narrow.h"
#include "tensor/relayout.h"

namespace slabload::hdf5 {
namespace {

constexpr std::size_t kKept = 4 << 20;  // a larger buffer is for large chunks, and does not outlive a read

}  // namespace

std::optional<host::ChunkFilters> filters_of(hid_t dataset, const TensorMeta& tensor, const Where& where) {
  using host::ChunkFilters;
  PropertyHandle dcpl(SLABLOAD_HDF5(where, H5Dget_create_plist, dataset));
  unsigned options = 0;
  SLABLOAD_HDF5(where, H5Pget_chunk_opts, dcpl.get(), &options);
  if (options != 0) return std::nullopt;
  std::vector<ChunkFilters::Filter> filters;
  const int count = SLABLOAD_HDF5(where, H5Pget_nfilters, dcpl.get());
  for (int i = 0; i < count; ++i) {
    std::array<unsigned, 8> values{};
    std::array<char, 2> name{};
    std::size_t entries = values.size();
    unsigned flags = 0, config = 0;
    const H5Z_filter_t id = SLABLOAD_HDF5(where, H5Pget_filter2, dcpl.get(), static_cast<unsigned>(i), &flags, &entries,
                                          values.data(), name.size() - 1, name.data(), &config);
    if (id == H5Z_FILTER_DEFLATE) {
      filters.push_back({ChunkFilters::Kind::deflate});
    } else if (id == H5Z_FILTER_FLETCHER32) {
      filters.push_back({ChunkFilters::Kind::fletcher32});
    } else if (id == H5Z_FILTER_SHUFFLE && entries >= 1) {
      filters.push_back({ChunkFilters::Kind::shuffle, values[0]});
    } else {
      return std::nullopt;
    }
  }
  std::uint64_t bytes = dtype_size(tensor.dtype);  // below 4 GiB: the index saw to that
  for (std::uint64_t length : tensor.chunk) bytes *= length;
  return ChunkFilters::of(std::move(filters), bytes);
}

std::string ChunkReader::read(hid_t dataset, const Where& where, const TensorMeta& tensor, const host::ChunkFilters& filters,
                              const Box& box, std::byte* out, const std::function<void(const Box&, std::byte*)>& absent) {
  const std::size_t ndim = box.ndim();
  Box chunk{Dims(ndim), tensor.chunk};
  Dims first(ndim);
  for (std::size_t d = 0; d < ndim; ++d) first[d] = chunk.start[d] = box.start[d] / tensor.chunk[d] * tensor.chunk[d];
  std::string reason;
  for (bool more = true; more && reason.empty();) {
    const Box part = intersect(chunk, box);
    const std::vector<hsize_t> at(chunk.start.begin(), chunk.start.end());
    hsize_t bytes = 0;
    if (H5Dget_chunk_storage_size(dataset, at.data(), &bytes) < 0) {
      // How HDF5 1.10 says that a chunk was never written; later ones say 0 bytes.
      if (tensor.storage != StorageKind::chunked_holes || innermost_error().find("not allocated") == std::string::npos)
        fail_call("H5Dget_chunk_storage_size", where);
      bytes = 0;
    }
    std::span<std::byte> plain = plain_.of(filters.chunk_bytes());
    const Box* holds = &chunk;
    if (bytes == 0) {
      absent(part, plain.data());
      holds = &part;
    } else if (bytes > filters.most_stored()) {
      reason = fmt::format("{} bytes in the file for one of {}", bytes, filters.chunk_bytes());
    } else {
      const std::span<std::byte> stored = stored_.of(bytes);
      std::uint32_t skipped = 0;
      SLABLOAD_HDF5(where, H5Dread_chunk, dataset, H5P_DEFAULT, at.data(), &skipped, stored.data());
      reason = filters.undo(stored, skipped, plain, scratch_);
    }
    if (!reason.empty()) {
      reason = fmt::format("chunk {}: {}", chunk.text(), reason);
      break;
    }
    relayout(make_relayout(narrow<std::uint32_t>(dtype_size(tensor.dtype)), part, *holds, box), plain.data(), out);
    more = false;
    for (std::size_t d = ndim; d-- > 0 && !more;) {
      chunk.start[d] += tensor.chunk[d];
      more = chunk.start[d] < box.start[d] + box.extent[d];
      if (!more) chunk.start[d] = first[d];
    }
  }
  for (host::ScratchBytes* kept : {&stored_, &plain_, &scratch_.a, &scratch_.b}) kept->shrink(kKept);
  return reason;
}

}  // namespace slabload::hdf5
