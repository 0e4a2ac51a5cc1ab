// Control over MPI.
#pragma once

#include "backend/control.h"
#include "backend/mpi/comm.h"

namespace slabload::mpi {

class MpiControl final : public Control {
 public:
  // Uses its own duplicate of `parent`. Collective over parent.
  explicit MpiControl(MPI_Comm parent);

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
  void agree(const std::optional<Error>& mine) override;

 private:
  void reduce(std::span<std::uint64_t> values, MPI_Op op);

  Comm comm_;
  int rank_;
  int ranks_;
  std::string host_;
};

}  // namespace slabload::mpi
