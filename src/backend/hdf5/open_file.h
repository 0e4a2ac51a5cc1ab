// Opening a file by the serial driver, and comparing a file with what it was when it was indexed.
#pragma once

#include <string>

#include "backend/hdf5/handle.h"
#include "index/tensor_index.h"

namespace slabload::hdf5 {

// Read-only, by the serial driver, which takes the lock that the MPI-IO driver does not. Throws Status::file
// saying which it is: no such file, no permission, not HDF5, cut short, held by a writer, left open by one.
FileHandle open_serial(const std::string& path);

// Whether a file of that name is there and begins as HDF5 files do.
bool is_hdf5(const std::string& path);

// Throws Status::file with HDF5's latest reason for not opening `path`, in our words where we know the case.
[[noreturn]] void fail_open(const std::string& path);

// Size, modification time and inode now. Throws Status::file if it is no regular file or cannot be opened for
// reading.
CheckpointFile stat_file(const std::string& path);

// Throws Status::file if the file under that name is not the one `then` describes.
void check_same(const CheckpointFile& then);

}  // namespace slabload::hdf5
