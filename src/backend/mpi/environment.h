// Choices that have to be made before MPI_Init.
#pragma once

namespace slabload::mpi {

// Asks Open MPI 4 for ROMIO as its MPI-IO: its own (OMPIO) loses read errors, so that a failed read gives
// zeros. Does nothing if the user has chosen (OMPI_MCA_io, mpirun --mca io) or with another MPI; it wins over
// Open MPI's parameter files. Call before MPI_Init.
void prefer_romio();

}  // namespace slabload::mpi
