#include "app/session.h"

#include <unistd.h>

#include <cstdio>

#include "backend/mpi/call.h"
#include "backend/mpi/environment.h"
#include "report/progress.h"

namespace slabload {

Session::Session() {
  mpi::prefer_romio();
  int provided = 0;
  // One thread calls MPI; the watchdog's only call is MPI_Abort, when nothing else can be saved.
  SLABLOAD_MPI(MPI_Init_thread, nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  SLABLOAD_MPI(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  control_ = std::make_unique<mpi::MpiControl>(MPI_COMM_WORLD);
  mpi::Comm node = mpi::Comm::split_by_node(MPI_COMM_WORLD);
  ranks_on_node_ = node.size();
  node_ = control_->rank();
  SLABLOAD_MPI(MPI_Bcast, &node_, 1, MPI_INT, 0, node.get());
}

Session::~Session() {
  control_.reset();
  MPI_Finalize();
}

std::unique_ptr<Watchdog> Session::watch(double timeout_s, const std::string& label) {
  std::string prefix = this->prefix();
  auto end_job = [prefix](const std::string& message) {
    std::fprintf(stderr, "slabload: error: %s%s\n", prefix.c_str(), message.c_str());
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(Status::peer));
    _exit(static_cast<int>(Status::peer));
  };
  std::function<void(std::uint64_t, std::uint64_t)> show;
  if (is_root() && !label.empty()) {
    auto progress = std::make_shared<Progress>(label);
    show = [progress](std::uint64_t done, std::uint64_t total) { progress->update(done, total); };
  }
  return std::make_unique<Watchdog>(timeout_s, end_job, show);
}

std::string Session::prefix() const {
  return fmt::format("[rank {} {}] ", control_->rank(), control_->host());
}

std::string Session::mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown MPI";
  std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));
}

}  // namespace slabload
