// The index of an HDF5 file.
#pragma once

#include <string>

#include "index/tensor_index.h"

namespace slabload {

// Walks the file on one process, read-only, without MPI, and describes every dataset in it. Reads no tensor
// data. Objects that are no tensors are listed in `skipped` with the reason. Not collective. Throws
// Status::file: not an HDF5 file, cut short, held by a writer, never finished, of a newer format; and
// Status::wrong_data if what was found is not what the file's checksum of it says, unless `trust_index`.
TensorIndex read_hdf5_index(const std::string& path, bool trust_index = false);

}  // namespace slabload
