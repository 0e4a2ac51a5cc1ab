// Runs the tests on all ranks of the job in lockstep. Every rank's failures are printed by rank 0, a failure
// on any rank fails the test on all, and a test that does not end is named and ends the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/mpi/environment.h"

namespace {

using Clock = std::chrono::steady_clock;

std::string rank_tag(int rank, int ranks) {
  return "[rank " + std::to_string(rank) + "/" + std::to_string(ranks) + "]";
}

// Ends the process when a test runs longer than its limit; MPI may then be stuck in any call, so it is not
// asked.
class Watchdog {
 public:
  Watchdog(std::string tag, double limit_s)
      : tag_(std::move(tag)), limit_(limit_s), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void begin(std::string test) {
    std::lock_guard lock(mutex_);
    test_ = std::move(test);
    failures_.clear();
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit_);
    wake_.notify_all();
  }
  // Printed if the test is cut off before its failures were gathered.
  void note_failure(const std::string& text) {
    std::lock_guard lock(mutex_);
    failures_ += text;
  }
  void end() {
    std::lock_guard lock(mutex_);
    test_.clear();
    wake_.notify_all();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      if (test_.empty()) {
        wake_.wait(lock);
      } else if (Clock::now() < deadline_) {
        wake_.wait_until(lock, deadline_);
      } else {
        std::fprintf(stderr, "%s %s did not end within %.0f s%s%s\n", tag_.c_str(), test_.c_str(),
                     limit_.count(), failures_.empty() ? "" : "; its failures so far:\n", failures_.c_str());
        std::fflush(nullptr);
        _exit(124);
      }
    }
  }

  std::string tag_;
  std::chrono::duration<double> limit_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::string test_;
  std::string failures_;
  Clock::time_point deadline_;
  std::thread thread_;
};

double test_limit_s() {
  const char* text = std::getenv("SLABLOAD_TEST_TIMEOUT");
  double seconds = text ? std::atof(text) : 0;
  return seconds > 0 ? seconds : 120;
}

// Takes the place of GoogleTest's printer on every rank.
class RankListener : public testing::EmptyTestEventListener {
 public:
  explicit RankListener(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
    tag_ = rank_tag(rank_, ranks_);
    watchdog_ = std::make_unique<Watchdog>(tag_, test_limit_s());
  }

  void OnTestStart(const testing::TestInfo& test) override {
    watchdog_->begin(std::string(test.test_suite_name()) + "." + test.name());
  }

  void OnTestPartResult(const testing::TestPartResult& part) override {
    // A skip is a failure: a test that did not run has shown nothing.
    if (!part.failed() && !part.skipped()) return;
    std::string where = part.file_name() ? part.file_name() : "?";
    std::string text = tag_ + " " + where + ":" + std::to_string(part.line_number()) + " " +
                       (part.skipped() ? "skipped itself: " : "") + part.message() + "\n";
    failures_ += text;
    watchdog_->note_failure(text);
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    bool failed = gather_failures();
    if (failed && !test.result()->Failed()) ADD_FAILURE() << "failed on another rank";
    failures_.clear();
    watchdog_->end();
    failed ? ++failed_tests_ : ++passed_tests_;
    if (rank_ != 0) return;
    std::printf("%-4s %s.%s (%lld ms)\n", failed ? "FAIL" : "ok", test.test_suite_name(), test.name(),
                static_cast<long long>(test.result()->elapsed_time()));
    if (failed) names_ += std::string("FAIL ") + test.test_suite_name() + "." + test.name() + "\n";
    std::fflush(stdout);
  }

  // What happened outside a test, in the set-up of a suite or of the program.
  void OnTestSuiteEnd(const testing::TestSuite&) override { gather_outside(); }
  void OnEnvironmentsTearDownEnd(const testing::UnitTest&) override { gather_outside(); }

  bool any_failed() const { return failed_tests_ > 0; }

  void summary() const {
    if (rank_ != 0) return;
    std::printf("%s%d passed, %d failed on %d ranks\n", names_.c_str(), passed_tests_, failed_tests_, ranks_);
    std::fflush(stdout);
  }

 private:
  // Prints every rank's failures on rank 0; true if there is one on any rank. Collective.
  bool gather_failures() {
    int size = static_cast<int>(failures_.size());
    std::vector<int> sizes(ranks_), starts(ranks_);
    MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, comm_);
    int total = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      starts[rank] = total;
      total += sizes[rank];
    }
    if (total == 0) return false;
    std::string all(rank_ == 0 ? total : 0, '\0');
    MPI_Gatherv(failures_.data(), size, MPI_CHAR, all.data(), sizes.data(), starts.data(), MPI_CHAR, 0,
                comm_);
    if (rank_ == 0) std::fputs(all.c_str(), stdout);
    return true;
  }

  void gather_outside() {
    if (!gather_failures()) return;
    failures_.clear();
    ++failed_tests_;
    names_ += "FAIL outside a test\n";
  }

  MPI_Comm comm_;
  int rank_ = 0, ranks_ = 1;
  std::string tag_, failures_, names_;
  int passed_tests_ = 0, failed_tests_ = 0;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace

int main(int argc, char** argv) {
  slabload::mpi::prefer_romio();
  testing::InitGoogleMock(&argc, argv);
  MPI_Init(&argc, &argv);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);

  // Shuffled runs shuffle alike on all ranks.
  int seed = testing::GTEST_FLAG(random_seed);
  if (seed == 0) seed = static_cast<int>(Clock::now().time_since_epoch().count() % 99999) + 1;
  MPI_Bcast(&seed, 1, MPI_INT, 0, comm);
  testing::GTEST_FLAG(random_seed) = seed;

  int rank;
  MPI_Comm_rank(comm, &rank);
  if (testing::GTEST_FLAG(list_tests)) {
    // GoogleTest prints the list itself; once is enough.
    int status = rank == 0 ? RUN_ALL_TESTS() : 0;
    MPI_Finalize();
    return status;
  }

  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto* listener = new RankListener(comm);  // owned by GoogleTest from here on
  listeners.Append(listener);

  int failed = RUN_ALL_TESTS() != 0 || listener->any_failed();
  listener->summary();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  delete listeners.Release(listener);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return failed;
}
