// Cells whose owners would read parts too small to be worth a request: laid end to end they form windows, some owners
// read whole stretches of a window straight to their final place, and broadcast them to the other owners.
#pragma once

#include <map>

#include "plan/plan_part.h"

namespace slabload {

class RelayPart final : public PlanPart {
 public:
  explicit RelayPart(const PlanContext& context) : context_(context) {}

  static void prepare(PlanTensor& tensor);

  void add(std::uint32_t tensor) override;
  void close() override;
  std::size_t rounds() const override { return windows_.size(); }
  void append_steps(std::size_t round, std::vector<ReadStep>& steps) const override;
  bool communicates(std::size_t) const override { return true; }
  std::size_t fills(std::size_t round) const override {
    return windows_[round].segments.size() + windows_[round].readers;
  }
  void append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& blocks, Round& out) const override;

 private:
  struct Segment {
    std::uint32_t tensor;
    FlatRange range;              // of the largest cell, elements
    std::uint64_t window_offset;  // stored bytes of the window before it
  };
  // Tensors with the same replicated axes.
  struct Window {
    std::vector<Segment> segments;
    std::uint64_t bytes = 0;         // stored, of one cell
    std::uint64_t replicas = 1;
    std::uint64_t readers = 1;       // of a group
    std::uint64_t first_reader = 0;  // owners that have read in the windows before
  };
  std::uint64_t stretch() const;
  void close(std::uint32_t mask, Window& window);
  // Where reader `i`'s stretch begins in a segment.
  std::uint64_t cut(const Window& window, const Segment& segment, std::uint64_t i) const;

  const PlanContext& context_;
  std::map<std::uint32_t, Window> open_;                // by mask
  std::map<std::uint32_t, std::uint64_t> next_reader_;  // by mask
  std::vector<Window> windows_;
};

}  // namespace slabload
