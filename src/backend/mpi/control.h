// Control over MPI.
#pragma once

#include "backend/control.h"
#include "backend/mpi/comm.h"

namespace slabload::mpi {

// This machine's name; "?" if it has none.
std::string host_name();

class MpiControl final : public Control {
 public:
  // Uses its own duplicates of `parent`. Collective over parent.
  explicit MpiControl(MPI_Comm parent);
  // Waits for nobody, also with an alarm that nobody has heard.
  ~MpiControl() override;
  MpiControl(const MpiControl&) = delete;
  MpiControl& operator=(const MpiControl&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  const std::string& host() const override { return host_; }

  void barrier() override;
  std::string broadcast(std::string bytes, int root) override;
  std::vector<std::string> gather(const std::string& bytes) override;
  void sum(std::span<std::uint64_t> values) override { reduce(values, MPI_SUM); }
  void max(std::span<std::uint64_t> values) override { reduce(values, MPI_MAX); }
  void min(std::span<std::uint64_t> values) override { reduce(values, MPI_MIN); }
  void bit_xor(std::span<std::uint64_t> values) override { reduce(values, MPI_BXOR); }
  // An agreement that throws also takes in all alarms, so that none is left for what comes after it.
  void agree(const std::optional<Error>& mine) override;
  // The first of this rank since the last agreement that threw; further ones say nothing new and are not
  // sent.
  void alarm(const Error& mine) override;
  std::optional<Error> alarmed() override;

 private:
  void reduce(std::span<std::uint64_t> values, MPI_Op op);
  // The message of this rank's error as other ranks are to read it.
  std::string told(const Error& error) const;
  void hear_alarm();
  void settle_alarms();

  Comm comm_;
  int rank_;
  int ranks_;
  std::string host_;

  // An alarm is one message: a byte for the status, then the text.
  Comm alarms_;
  std::vector<char> alarm_;           // this rank's; empty: none raised
  std::vector<MPI_Request> sending_;  // it, on its way to the others
  std::optional<Error> heard_;        // the first of the others'
  int alarms_heard_ = 0;
};

}  // namespace slabload::mpi
