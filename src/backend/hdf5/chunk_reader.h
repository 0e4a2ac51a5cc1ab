// Reading chunks as they are stored, and undoing their filters.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "backend/hdf5/handle.h"
#include "backend/host/chunk_filters.h"
#include "index/tensor_index.h"
#include "tensor/box.h"

namespace slabload::hdf5 {

// The filters of a dataset, or nothing if only the library can undo them (szip, plugins, partial chunks left unfiltered).
std::optional<host::ChunkFilters> filters_of(hid_t dataset, const TensorMeta& tensor, const Where& where);

class ChunkReader {
 public:
  // Reads `box` of a chunked dataset into `out`, row by row, a chunk at a time, each by one independent read. A chunk that is
  // not in the file is left to `absent(box, to)`, which puts the elements of that part of it densely at `to`. Returns the reason
  // if a chunk is not what its filters make; throws Status::file if the library fails.
  std::string read(hid_t dataset, const Where& where, const TensorMeta& tensor, const host::ChunkFilters& filters,
                   const Box& box, std::byte* out, const std::function<void(const Box&, std::byte*)>& absent);

 private:
  host::ScratchBytes stored_, plain_;  // one chunk, as it lies in the file and as it is
  host::FilterScratch scratch_;
};

}  // namespace slabload::hdf5
