#include "backend/mpi/comm.h"

#include "backend/mpi/call.h"

namespace slabload::mpi {

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "unknown MPI error";
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) fail(Status::peer, "{}: {}", call, error_text(code));
}

Comm::Comm(MPI_Comm comm) : comm_(comm) {
  SLABLOAD_MPI(MPI_Comm_set_errhandler, comm_, MPI_ERRORS_RETURN);
}

Comm Comm::duplicate(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  SLABLOAD_MPI(MPI_Comm_dup, parent, &comm);
  return Comm(comm);
}

Comm Comm::split(MPI_Comm parent, int color, int key) {
  MPI_Comm comm = MPI_COMM_NULL;
  SLABLOAD_MPI(MPI_Comm_split, parent, color, key, &comm);
  return Comm(comm);
}

Comm Comm::split_by_node(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  SLABLOAD_MPI(MPI_Comm_split_type, parent, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
  return Comm(comm);
}

void Comm::reset() noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (comm_ != MPI_COMM_NULL && !finalized) MPI_Comm_free(&comm_);
  comm_ = MPI_COMM_NULL;
}

int Comm::rank() const {
  int rank = 0;
  SLABLOAD_MPI(MPI_Comm_rank, comm_, &rank);
  return rank;
}

int Comm::size() const {
  int size = 0;
  SLABLOAD_MPI(MPI_Comm_size, comm_, &size);
  return size;
}

}  // namespace slabload::mpi
