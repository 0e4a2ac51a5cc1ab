// One MPI job: started or joined, watched, ended. The only place that starts and ends MPI.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "app/peer_watch.h"
#include "app/watchdog.h"
#include "backend/mpi/comm.h"
#include "backend/mpi/control.h"

namespace slabload {

class Session {
 public:
  // Starts MPI (alone, without mpirun, it is a job of one rank). Chooses ROMIO first, see
  // backend/mpi/environment.h. Ends the job if the ranks' first messages do not arrive within `timeout_s`.
  explicit Session(double timeout_s);
  // Joins a job whose MPI the caller has started and will end: works on a duplicate of `comm`, leaves the
  // caller's error handlers alone, chooses ROMIO if that is still possible (see prepare). Collective over
  // comm.
  explicit Session(MPI_Comm comm);
  // Ends MPI if it was started here. Everything that holds a communicator or an HDF5 id must be gone by then.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Control& control() { return *control_; }
  MPI_Comm world() const { return joined_.get() == MPI_COMM_NULL ? MPI_COMM_WORLD : joined_.get(); }
  int rank() const { return control_->rank(); }
  int ranks() const { return control_->ranks(); }
  bool is_root() const { return rank() == 0; }

  // The lowest rank on this rank's node, and how many ranks the node has. Found by the constructor.
  int node() const { return node_; }
  // The node of every rank, numbered by its lowest rank. Collective.
  std::vector<std::uint32_t> nodes();
  int ranks_on_node() const { return ranks_on_node_; }
  // This rank's place among them, from 0.
  int rank_on_node() const { return rank_on_node_; }
  bool leads_node() const { return node_ == rank(); }

  // Says the line (none if empty) and ends the job on all ranks. For what is known to this rank alone, when
  // nothing else can be saved; callable from any thread. Ends the process even if MPI hangs.
  [[noreturn]] void end_job(const std::string& message, Status status) noexcept;

  // A watchdog that ends the job. `label` names the progress shown by rank 0; empty: none is shown.
  std::unique_ptr<Watchdog> watch(double timeout_s, const std::string& label);

  // "[rank 17 host] " for messages of one rank alone.
  std::string prefix() const;

  // "Open MPI 4.1.4" and the like.
  static std::string mpi_version();

  // Chooses ROMIO for a job that the caller is going to start; works until the first use of MPI-IO. Not
  // collective.
  static void prepare();

  // The communicator behind a Fortran handle (MPI_Comm_c2f). Throws Status::usage if MPI does not run or the
  // handle is not that of an intra-communicator. Not collective.
  static MPI_Comm comm_of(int fortran_handle);

 private:
  void look_around();
  void watch_peers(const mpi::Comm& node);

  mpi::Comm joined_;
  std::unique_ptr<mpi::MpiControl> control_;
  int node_ = 0;
  int ranks_on_node_ = 1;
  int rank_on_node_ = 0;
  // Ends the job if another rank of this node has died.
  std::unique_ptr<PeerWatch> peers_;
};

}  // namespace slabload
