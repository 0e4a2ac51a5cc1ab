// Each owner reads its part of a cell straight to its final place; an all-gather in place brings the other parts. What
// is not in the file, every owner makes; what is read again (Way::reread), every owner reads.
#pragma once

#include "plan/plan_part.h"

namespace slabload {

class DirectPart final : public PlanPart {
 public:
  explicit DirectPart(const PlanContext& context) : context_(context) {}

  // Owners that share the reading of a cell.
  static std::uint64_t sharers(const PlanTensor& tensor);
  // Sets the grain and the piece of a tensor that comes this way.
  static void prepare(const TensorMeta& meta, const PlanParams& params, std::uint64_t ranks, PlanTensor& tensor);

  void add(std::uint32_t tensor) override;
  void close() override;
  std::size_t rounds() const override { return rounds_.size(); }
  void append_steps(std::size_t round, std::vector<ReadStep>& steps) const override;
  bool communicates(std::size_t round) const override;
  std::size_t fills(std::size_t round) const override { return communicates(round) ? rounds_[round].size() : 0; }
  void append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& blocks, Round& out) const override;

 private:
  struct Piece {
    std::uint32_t tensor;
    std::uint64_t number;
  };
  void append_piece(const Piece& piece, std::uint32_t step, LoadPlan& plan, Round& out) const;

  const PlanContext& context_;
  std::vector<std::vector<Piece>> rounds_;
  std::vector<Piece> open_;
  std::uint64_t open_bytes_ = 0;  // of one rank
};

}  // namespace slabload
