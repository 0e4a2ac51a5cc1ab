#include "backend/mpi/environment.h"

#include <mpi.h>

#include <cstdlib>
#include <string_view>

#include "backend/mpi/call.h"

namespace slabload::mpi {

void prefer_romio() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  SLABLOAD_MPI(MPI_Get_library_version, version, &length);
  if (std::string_view(version).substr(0, 11) != "Open MPI v4") return;
  // Every 4.x has it under this name.
  setenv("OMPI_MCA_io", "romio321", 0);
}

}  // namespace slabload::mpi
