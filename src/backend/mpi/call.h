// MPI calls checked: a code that is not MPI_SUCCESS becomes an Error with the call's name.
#pragma once

#include <mpi.h>

#include <string>

#include "base/error.h"

namespace slabload::mpi {

// The library's text for an error code.
std::string error_text(int code);

// Throws Status::peer "CALL: text" unless code is MPI_SUCCESS.
void check(int code, const char* call);

}  // namespace slabload::mpi

// SLABLOAD_MPI(MPI_Barrier, comm) calls and checks.
#define SLABLOAD_MPI(function, ...) ::slabload::mpi::check(function(__VA_ARGS__), #function)
