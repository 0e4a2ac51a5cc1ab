// Taking the attributes of one file over into another.
#pragma once

#include <string>
#include <vector>

#include "backend/hdf5/handle.h"
#include "index/tensor_index.h"

namespace slabload::hdf5 {

// Copies what users put on the root group, on the groups above the tensors and on the datasets of the file at `source` to
// their counterparts in `target`: tensor i of both indices is the same one. Groups with nothing in them are made, with what
// they carry. Ours (slabload_...) stay behind, and what is there already stays. An attribute that cannot be kept (references,
// more than 64 KiB) is named in the result. Throws Status::file if the source cannot be read.
std::vector<std::string> copy_attributes(const TensorIndex& source, const TensorIndex& made, hid_t target);

}  // namespace slabload::hdf5
