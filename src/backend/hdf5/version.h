// Which HDF5 library is at work.
#pragma once

#include <string>

namespace slabload {

// "1.10.8", of the library that is loaded.
std::string hdf5_version();

}  // namespace slabload
