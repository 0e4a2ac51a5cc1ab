// Runs a function as several ranks: forked processes with the variables of a launcher, in a few milliseconds
// each.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace doubles {

// What the processes of one run share.
struct SharedPart {
  pthread_barrier_t barrier;
  ncclUniqueId id;
};

// What a rank has of the others. A barrier or id that not all ranks ask for never comes.
class World {
 public:
  World(SharedPart& shared, int rank_, int ranks_) : rank(rank_), ranks(ranks_), shared_(shared) {}
  const int rank;
  const int ranks;
  void barrier() { pthread_barrier_wait(&shared_.barrier); }
  // Of rank 0, a new one at each call.
  ncclUniqueId unique_id() {
    if (rank == 0 && ncclGetUniqueId(&shared_.id) != ncclSuccess) _exit(1);
    barrier();
    const ncclUniqueId id = shared_.id;
    barrier();
    return id;
  }

 private:
  SharedPart& shared_;
};

using Body = void (*)(World&);

// The device that is set before the body runs: that of the rank's number, the first on all ranks, or none.
enum class Gpu { own, first, none };

struct Case {
  const char* name;
  Body body;
  std::vector<int> ranks;  // how many to run it with, each in turn
  // What a violation must say; null for a case that must end well on all ranks.
  const char* violation = nullptr;
  int killed_rank = -1;  // a rank that kills itself, as it should
  Gpu gpu = Gpu::own;
  std::vector<std::pair<const char*, const char*>> environment = {};
};

namespace detail {

inline constexpr int violation_status = 86;
inline constexpr double limit_s = 30;
// The cases that end in a deadlock take this long each.
inline constexpr const char* deadlock_s = "0.5";
inline constexpr const char* modes[] = {"lazy",     "eager",    "random:1", "random:2",
                                        "random:3", "random:4", "random:5"};

// The processes of one run, and what they print.
class Run {
 public:
  Run(const Case& one, int ranks, const char* mode) : output_(memfd_create("output", MFD_CLOEXEC)) {
    void* memory =
        mmap(nullptr, sizeof(SharedPart), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) SharedPart;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared_->barrier, &attributes, static_cast<unsigned>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) be_rank(one, rank, ranks, mode);
      pids_.push_back(pid);
    }
    statuses_.assign(pids_.size(), -1);
  }
  ~Run() {
    munmap(shared_, sizeof(SharedPart));
    close(output_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Waits for all; after the first that fails the others are killed, as a launcher does. The first failure's
  // status.
  int wait(int killed_rank) {
    int first = 0;
    const auto begin = std::chrono::steady_clock::now();
    while (std::count(statuses_.begin(), statuses_.end(), -1) > 0) {
      for (std::size_t i = 0; i < pids_.size(); ++i) {
        int status = 0;
        if (statuses_[i] != -1 || waitpid(pids_[i], &status, WNOHANG) != pids_[i]) continue;
        statuses_[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (statuses_[i] == 0) continue;
        if (static_cast<int>(i) == killed_rank && statuses_[i] == 128 + SIGKILL) continue;
        if (first == 0) first = statuses_[i];
        kill_all();
      }
      if (first == 0 &&
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > limit_s) {
        first = 124;
        kill_all();
      }
      usleep(1000);
    }
    return first;
  }

  std::string output() const {
    std::string text(static_cast<std::size_t>(lseek(output_, 0, SEEK_END)), ' ');
    const ssize_t got = pread(output_, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  [[noreturn]] void be_rank(const Case& one, int rank, int ranks, const char* mode) {
    setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
    setenv("SLABLOAD_FAKE_STREAMS", mode, 1);
    if (one.violation) setenv("SLABLOAD_FAKE_DEADLOCK_S", deadlock_s, 1);
    for (const auto& [variable, value] : one.environment) setenv(variable, value, 1);
    dup2(output_, STDERR_FILENO);
    if (one.gpu != Gpu::none && cudaSetDevice(one.gpu == Gpu::own ? rank : 0) != cudaSuccess) _exit(1);
    World world(*shared_, rank, ranks);
    one.body(world);
    std::exit(0);
  }
  void kill_all() {
    for (std::size_t i = 0; i < pids_.size(); ++i)
      if (statuses_[i] == -1) kill(pids_[i], SIGKILL);
  }

  SharedPart* shared_ = nullptr;
  int output_ = -1;
  std::vector<pid_t> pids_;
  std::vector<int> statuses_;
};

inline bool passes(const Case& one, int ranks, const char* mode) {
  Run run(one, ranks, mode);
  const int status = run.wait(one.killed_rank);
  const std::string output = run.output();
  const bool good = one.violation
                        ? status == violation_status && output.find("VIOLATION: ") != std::string::npos &&
                              output.find(one.violation) != std::string::npos
                        : status == 0;
  if (!good)
    std::printf("FAIL %s on %d ranks, %s: status %d, wanted %s\n%s", one.name, ranks, mode, status,
                one.violation ? one.violation : "0", output.c_str());
  else if (std::getenv("SHOW"))
    std::printf("ok %s on %d ranks, %s\n%s", one.name, ranks, mode, output.c_str());
  std::fflush(stdout);
  return good;
}

}  // namespace detail

// Runs the cases that are named (all without a name) in every mode and prints a line for each that fails,
// then "N passed, M failed". `--list` prints the names. Returns the exit status.
inline int run_cases(const std::vector<Case>& cases, int count, char** names) {
  const auto chosen = [&](const Case& one) {
    return count == 0 ||
           std::any_of(names, names + count, [&](const char* name) { return !std::strcmp(name, one.name); });
  };
  const bool list = count == 1 && !std::strcmp(names[0], "--list");
  int passed = 0;
  int failed = 0;
  for (const Case& one : cases) {
    if (list) std::printf("%s\n", one.name);
    if (!chosen(one)) continue;
    for (const int ranks : one.ranks)
      for (const char* mode : detail::modes) ++(detail::passes(one, ranks, mode) ? passed : failed);
  }
  if (list) return 0;
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace doubles
