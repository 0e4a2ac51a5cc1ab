// A file by HDF5's MPI-IO driver.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/hdf5/handle.h"

namespace slabload::hdf5 {

enum class MpioAccess { read, write };

// `hints` are MPI-IO info keys. Collective over comm. Throws Status::file; a failure of one rank
// only may leave the others waiting, so check first that all ranks see the file.
FileHandle open_mpio(const std::string& path, MPI_Comm comm,
                     const std::vector<std::pair<std::string, std::string>>& hints,
                     MpioAccess access = MpioAccess::read);

// Reads `bytes` bytes (below 1 GiB) at `offset` of the file that HDF5 has open, through the same MPI-IO file. Returns the
// reason if not all of them came, else nothing. Not collective.
std::string read_mpio(hid_t file, std::uint64_t offset, std::uint64_t bytes, void* out);

// What implements MPI-IO for this file: "ROMIO 321", "ROMIO", "OMPIO", or "MPI-IO" if it cannot be told.
std::string mpio_component(hid_t file);

}  // namespace slabload::hdf5
