// Every object of a file, found through its links.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/hdf5/dataset.h"
#include "backend/hdf5/handle.h"
#include "index/tensor_index.h"

namespace slabload::hdf5 {

// A dataset and all paths that lead to it, without the leading slash.
struct FoundDataset {
  std::vector<std::string> hard;  // sorted; hard[0] is its name
  std::vector<std::string> soft;  // further names, by soft links and by other paths to its groups; sorted
  Description description;        // the tensor's path is "/" + hard[0]
};

struct Walk {
  std::vector<FoundDataset> datasets;  // by hard[0]
  std::vector<SkippedObject> skipped;  // links and objects that lead to no dataset
};

// Visits each group once, under its shortest path, so cycles end; opens each dataset once. External and
// user-defined links are never followed. Nothing below the root group's member `except` is visited.
// `file_size` as for describe_dataset. Throws Status::file if an object cannot be read.
Walk walk_links(hid_t file, std::string_view file_name, std::uint64_t file_size, std::string_view except);

}  // namespace slabload::hdf5
