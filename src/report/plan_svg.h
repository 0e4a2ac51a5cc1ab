// A picture of a plan: who reads what, ranks against the bytes of the checkpoint.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "plan/load_plan.h"

namespace slabload {

class PlanSvg {
 public:
  // `title` and `subtitle` go on top. Neighbouring `ranks_per_node` ranks share a node; more than 1 are marked as one.
  PlanSvg(const TensorIndex& index, std::uint64_t ranks, std::uint64_t ranks_per_node, std::string title,
          std::string subtitle);

  // Takes in the plan of one rank. All ranks, in any order.
  void add(const LoadPlan& plan);

  // The whole picture. Costs pixels, not items.
  std::string text() const;

 private:
  enum Kind : std::size_t { kRead, kGather, kBroadcast, kMessage, kKinds };

  void mark(Kind kind, std::size_t row, std::uint32_t tensor, const Box& box);
  void mark_bytes(Kind kind, std::size_t row, double begin, double end, double bytes);
  // Where the bars of one kind lie in a row, in pixels from its top.
  struct Bar {
    Kind kind;
    double middle, height;
  };
  std::vector<Bar> bars_of_a_row() const;
  std::string strokes(const Bar& bar) const;
  std::string rank_labels() const;
  std::string node_marks() const;

  const TensorIndex& index_;
  const std::uint64_t ranks_, ranks_per_node_;
  const std::string title_, subtitle_;
  std::uint64_t ranks_per_row_ = 1;
  std::size_t rows_ = 0;
  double row_height_ = 0;
  std::vector<std::uint64_t> begin_;  // per tensor: bytes of all tensors before it
  std::uint64_t bytes_ = 0;
  // Per kind, row and column: bytes.
  std::array<std::vector<float>, kKinds> grid_;
  std::array<double, kKinds> total_{};
};

}  // namespace slabload
