// One MPI job: started, watched, ended. The only place that starts and ends MPI.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "app/watchdog.h"
#include "backend/mpi/control.h"

namespace slabload {

class Session {
 public:
  // Starts MPI (alone, without mpirun, it is a job of one rank). Chooses ROMIO first, see backend/mpi/environment.h.
  Session();
  // Ends MPI. Everything that holds a communicator or an HDF5 id must be gone by then.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Control& control() { return *control_; }
  MPI_Comm world() const { return MPI_COMM_WORLD; }
  int rank() const { return control_->rank(); }
  int ranks() const { return control_->ranks(); }
  bool is_root() const { return rank() == 0; }

  // The lowest rank on this rank's node, and how many ranks the node has. Found by the constructor.
  int node() const { return node_; }
  int ranks_on_node() const { return ranks_on_node_; }
  bool leads_node() const { return node_ == rank(); }

  // A watchdog that ends the job. `label` names the progress shown by rank 0; empty: none is shown.
  std::unique_ptr<Watchdog> watch(double timeout_s, const std::string& label);

  // "[rank 17 host] " for messages of one rank alone.
  std::string prefix() const;

  // "Open MPI 4.1.4" and the like.
  static std::string mpi_version();

 private:
  std::unique_ptr<mpi::MpiControl> control_;
  int node_ = 0;
  int ranks_on_node_ = 1;
};

}  // namespace slabload
