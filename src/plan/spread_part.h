// Many small tensors at once: laid end to end in file order they form windows that fit the staging; a few ranks read a
// window's extents, many tensors in one request, and broadcast them; every rank takes out what it owns. However many
// ranks there are, nobody sends a message for each of them.
#pragma once

#include "plan/plan_part.h"

namespace slabload {

class SpreadPart final : public PlanPart {
 public:
  explicit SpreadPart(const PlanContext& context) : context_(context) {}

  static void prepare(const Shape& shape, PlanTensor& tensor);

  void add(std::uint32_t tensor) override;
  void close() override;
  std::size_t rounds() const override { return windows_.size(); }
  void append_steps(std::size_t round, std::vector<ReadStep>& steps) const override;
  bool communicates(std::size_t) const override { return true; }
  std::size_t fills(std::size_t round) const override { return windows_[round].readers; }
  void append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& blocks, Round& out) const override;

 private:
  struct Segment {  // a whole tensor
    std::uint32_t tensor;
    std::uint64_t stored_offset, staged_offset;  // bytes of the window before it, as stored and as final type
  };
  struct Window {
    std::vector<Segment> segments;
    std::uint64_t stored_bytes = 0, staged_bytes = 0;
    std::uint64_t readers = 1;
    std::uint64_t first_reader = 0;
  };
  // Where reader `i`'s extent begins in a segment, in elements.
  std::uint64_t cut(const Window& window, const Segment& segment, std::uint64_t i) const;

  const PlanContext& context_;
  std::vector<Window> windows_;
  Window open_;
  std::uint64_t next_reader_ = 0;
};

}  // namespace slabload
