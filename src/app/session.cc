#include "app/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "backend/hdf5/handle.h"
#include "backend/host/silent_peers.h"
#include "backend/mpi/call.h"
#include "backend/mpi/environment.h"
#include "base/narrow.h"
#include "report/progress.h"

namespace slabload {
namespace {

// What it mostly is when the ranks of several hosts do not hear each other.
constexpr const char* kNetworkHint =
    "; if the hosts have several networks, MPI may have taken one that does not join them: choose with "
    "OMPI_MCA_btl_tcp_if_include=SUBNET/BITS (Open MPI over TCP) or UCX_NET_DEVICES (UCX)";

// "; 10.0.0.2 does not answer ..." if the kernel knows of such hosts.
std::string silent_hosts() {
  const std::vector<std::string> silent = host::silent_peers();
  if (silent.empty()) return {};
  return fmt::format("; {} no longer confirm{} what this rank sends: a host or link that is down?", fmt::join(silent, ", "),
                     silent.size() == 1 ? "s" : "");
}

// As the launcher numbers this process, before MPI does.
int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return 0;
}

// Ends this process after a while, whatever its other threads are stuck in.
void set_deadline(int status) {
  try {
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      _exit(status);
    }).detach();
  } catch (const std::system_error&) {
    alarm(3);
  }
}

// Says the line, none if it is empty, and ends the job.
[[noreturn]] void end_with(const std::string& line, Status status) noexcept {
  static std::atomic<bool> ending{false};
  // Another thread is at it, and this one must not return.
  while (ending.exchange(true)) pause();
  // Both the output and MPI may be held by a thread that hangs.
  set_deadline(static_cast<int>(status));
  if (!line.empty()) std::fprintf(stderr, "slabload: error: %s\n", line.c_str());
  std::fflush(nullptr);
  int begun = 0;
  MPI_Initialized(&begun);
  if (begun != 0) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(status));
  _exit(static_cast<int>(status));
}

}  // namespace

Session::Session(double timeout_s) {
  prepare();
  const int launched = launched_rank();
  // All ranks stand still together: the first that says so ends the others.
  Watchdog watchdog(timeout_s + 0.1 * std::min(launched, 20), [launched](const std::string& message, Status status) {
    end_with(fmt::format("[rank {} {}] {}{}", launched, mpi::host_name(), message + silent_hosts(), kNetworkHint), status);
  });
  watchdog.waiting("start (MPI_Init)", nullptr);
  int provided = 0;
  // One thread calls MPI; the only call of the others is MPI_Abort, when nothing else can be saved.
  SLABLOAD_MPI(MPI_Init_thread, nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  SLABLOAD_MPI(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  watchdog.waiting("start (first messages between the ranks)", nullptr);
  look_around();
}

Session::Session(MPI_Comm comm) : joined_(mpi::Comm::duplicate(comm)) {
  prepare();
  look_around();
}

void Session::prepare() {
  mpi::prefer_romio();
}

void Session::look_around() {
  control_ = std::make_unique<mpi::MpiControl>(world());
  mpi::Comm node = mpi::Comm::split_by_node(world());
  ranks_on_node_ = node.size();
  rank_on_node_ = node.rank();
  node_ = control_->rank();
  SLABLOAD_MPI(MPI_Bcast, &node_, 1, MPI_INT, 0, node.get());
  watch_peers(node);
}

void Session::watch_peers(const mpi::Comm& node) {
  host::Lifeline line;
  Peer mine{control_->rank(), line.address()};
  std::vector<Peer> all(static_cast<std::size_t>(ranks_on_node_));
  SLABLOAD_MPI(MPI_Allgather, &mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, node.get());
  peers_ =
      std::make_unique<PeerWatch>(std::move(line), neighbours(all, static_cast<std::size_t>(node.rank())),
                                  control_->host(), [prefix = prefix()](const std::string& message) {
                                    end_with(message.empty() ? "" : prefix + message, Status::peer);
                                  });
}

Session::~Session() {
  if (joined_.get() == MPI_COMM_NULL) {
    try {
      // Until all ranks are here each watches its neighbours: MPI_Finalize waits for one that is dead, or cannot go there.
      std::uint64_t left_open = hdf5::left_open() ? 1 : 0;
      control_->max({&left_open, 1});
      if (left_open != 0) hdf5::note_unclosed();
    } catch (const Error&) {
      // The job is over either way.
    }
  }
  peers_.reset();
  control_.reset();
  // main() ends the process otherwise.
  if (joined_.get() == MPI_COMM_NULL && !hdf5::left_open()) MPI_Finalize();
}

void Session::end_job(const std::string& message, Status status) noexcept {
  peers_->ends_the_job();
  end_with(message.empty() ? "" : prefix() + message, status);
}

std::unique_ptr<Watchdog> Session::watch(double timeout_s, const std::string& label) {
  std::function<void(std::uint64_t, std::uint64_t)> show;
  if (is_root() && !label.empty()) {
    auto progress = std::make_shared<Progress>(label);
    show = [progress](std::uint64_t done, std::uint64_t total) { progress->update(done, total); };
  }
  // Ranks that wait for each other fall silent together: one line is enough.
  auto on_silence = [this](const std::string& message, Status status) {
    end_job(peers_->another_ends_the_job() ? "" : message + silent_hosts(), status);
  };
  return std::make_unique<Watchdog>(timeout_s, on_silence, show);
}

std::string Session::prefix() const {
  return fmt::format("[rank {} {}] ", control_->rank(), control_->host());
}

MPI_Comm Session::comm_of(int fortran_handle) {
  int begun = 0;
  int ended = 0;
  SLABLOAD_MPI(MPI_Initialized, &begun);
  SLABLOAD_MPI(MPI_Finalized, &ended);
  if (!begun || ended)
    fail(Status::usage, "MPI does not run: a load needs it between MPI_Init and MPI_Finalize");
  // What is no handle at all gives a null pointer with Open MPI.
  MPI_Comm comm = MPI_Comm_f2c(fortran_handle);
  int between_groups = 1;
  if (comm != MPI_Comm{} && comm != MPI_COMM_NULL) SLABLOAD_MPI(MPI_Comm_test_inter, comm, &between_groups);
  if (between_groups) {
    fail(Status::usage,
         "{} is not the handle of an intra-communicator; give MPI_Comm_c2f(MPI_COMM_WORLD) or another",
         fortran_handle);
  }
  return comm;
}

std::string Session::mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown MPI";
  std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));
}

std::vector<std::uint32_t> Session::nodes() {
  std::vector<std::uint64_t> node_of(static_cast<std::size_t>(ranks()), 0);
  node_of[static_cast<std::size_t>(rank())] = static_cast<std::uint64_t>(node());
  control().max(node_of);
  std::vector<std::uint32_t> out;
  for (std::uint64_t node : node_of) out.push_back(narrow<std::uint32_t>(node));
  return out;
}

}  // namespace slabload
