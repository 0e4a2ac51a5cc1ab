// A communicator that is ours: duplicated or split, with errors returned and not fatal, freed with the
// object.
#pragma once

#include <mpi.h>

#include <utility>

namespace slabload::mpi {

class Comm {
 public:
  Comm() = default;
  // A duplicate of `parent` with MPI_ERRORS_RETURN. Collective over parent.
  static Comm duplicate(MPI_Comm parent);
  // The sub-communicator of the ranks with the same color, ordered by key. Collective over parent.
  static Comm split(MPI_Comm parent, int color, int key);
  // The ranks that share this rank's memory (its node). Collective over parent.
  static Comm split_by_node(MPI_Comm parent);
  ~Comm() { reset(); }

  Comm(Comm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  Comm& operator=(Comm&& other) noexcept {
    if (this != &other) {
      reset();
      comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
    }
    return *this;
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  MPI_Comm get() const { return comm_; }
  int rank() const;
  int size() const;

 private:
  explicit Comm(MPI_Comm comm);
  void reset() noexcept;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace slabload::mpi
