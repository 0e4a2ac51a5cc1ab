// slabload version
#include "app/hardware.h"
#include "backend/hdf5/version.h"
#include "cli/help.h"
#include "cli/verbs.h"

namespace slabload {

Status run_version(bool speaks) {
  if (!speaks) return Status::ok;
  print(version_text());
  print(fmt::format("{}, HDF5 {}; {}\n", Session::mpi_version(), hdf5_version(), Hardware::libraries()));
  return Status::ok;
}

}  // namespace slabload
