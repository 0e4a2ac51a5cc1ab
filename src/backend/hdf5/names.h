// Which tensor names can be paths in an HDF5 file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "index/tensor_index.h"

namespace slabload::hdf5 {

// True if a tensor of that name can lie under it.
bool is_dataset_path(std::string_view name);

// The dataset path of every tensor of a new file, in the order of the index. A tensor lies under its name
// ('/' makes groups); one whose name is no path (empty, empty components, "." or "..", a zero byte, our own
// group) or whose name would need a group where another tensor is, lies at kOddNames/<number>. Throws
// Status::file if two have one name.
std::vector<std::string> dataset_paths(const TensorIndex& index);

}  // namespace slabload::hdf5
