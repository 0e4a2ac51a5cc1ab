// The walk of an HDF5 file in a process of its own: the library has faults that a damaged or hostile file can
// reach, and those are to end that process and not the job.
#pragma once

#include <string>

#include "index/tensor_index.h"

namespace slabload {

// How an index is read.
struct IndexReading {
  bool trust = false;  // take it even if a checksum of it is wrong
  double timeout_s =
      300;  // the whole phase's; the walk has to end somewhat earlier, so that its own error is seen
};

// As read_hdf5_index, done by a new process of this program or, where that is another program which uses the
// library, by a copy of it. Throws what the walk throws, and Status::file if it crashes, hangs or wants too
// much memory. One process, without MPI; nothing else may use HDF5 meanwhile.
TensorIndex read_hdf5_index_apart(const std::string& path, const IndexReading& reading);

// To be called first in the program's main: if the process was started for a walk, does it and ends. Makes
// the program the one that is started for it.
void serve_index_child(int argc, char** argv);

}  // namespace slabload
