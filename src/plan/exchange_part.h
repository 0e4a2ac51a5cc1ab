// Two-phase reading: tensors laid end to end in file order form windows; all ranks read an even, wide extent of a window
// each, and send its pieces to the owners. For slabs of inner dimensions, for what would be many small requests, and for
// compressed chunks, each of which one rank decodes. A piece of a cell with several owners goes to one of them, the
// cell's head in this window, who broadcasts all of them once they have come. What all ranks own, each reader broadcasts.
#pragma once

#include "plan/plan_part.h"

namespace slabload {

class ExchangePart final : public PlanPart {
 public:
  explicit ExchangePart(const PlanContext& context) : context_(context) {}

  // The least that a round must be able to stage for this tensor, bytes; sets its grain, finer if a row of chunks is too
  // much for `capacity`.
  static std::uint64_t prepare(const TensorMeta& meta, const PlanParams& params, std::uint64_t ranks,
                               std::uint64_t capacity, PlanTensor& tensor);

  void add(std::uint32_t tensor) override;
  void close() override;
  std::size_t rounds() const override { return rounds_; }
  void append_steps(std::size_t round, std::vector<ReadStep>& steps) const override;
  bool communicates(std::size_t round) const override;
  std::size_t fills(std::size_t round) const override;
  void append(std::size_t round, std::uint32_t first_step, LoadPlan& plan, BlockIndexes& blocks, Round& out) const override;

 private:
  struct Segment {
    std::uint32_t tensor;
    FlatRange range;
    std::uint64_t window_offset;  // stored bytes of the window before it
    std::uint64_t number;         // of all segments
  };
  struct Window {
    std::vector<Segment> segments;
    std::uint64_t bytes = 0;  // stored
    std::size_t headed = 0;   // segments whose cells have several owners
  };
  // What a window needs of the staging of any one rank, as it grows.
  struct Need {
    std::uint64_t staged_bytes = 0;   // stored bytes of the window
    std::uint64_t read_bytes = 0;     // of those, bytes that pass through staging when read (not owned by all)
    std::uint64_t largest_grain = 0;  // bytes, final type
    std::uint64_t unpack_bytes = 0;   // what arrives in staging to be spread out
    std::uint64_t widening = 1;       // the largest final size / stored size
    bool strided = false;

    Need with(const PlanTensor& tensor, std::uint64_t elements) const;
    std::uint64_t total(std::uint64_t ranks, const PlanParams& params) const;
  };

  // The owner that gets all pieces of the cell of rank `owner` in a segment.
  std::uint64_t head_of(const Segment& segment, std::uint64_t owner) const;
  // The window whose heads broadcast in a round, or nullptr.
  const Window* shared_in(std::size_t round) const;

  bool aligned(const Window& window) const;
  bool cuts_at_stripes(const Segment& segment, const Window& window) const;
  // Where the share of reader `i` begins in a segment.
  std::uint64_t cut(const Segment& segment, const Window& window, std::uint64_t i) const;
  FlatRange share_of(const Segment& segment, const Window& window, std::uint64_t reader) const;
  std::uint64_t reader_of(const Segment& segment, const Window& window, std::uint64_t element) const;
  void append_reads(const Segment& segment, const Window& window, std::uint32_t step, LoadPlan& plan,
                    BlockIndexes& indexes, Round& out) const;
  void append_receives(const Segment& segment, const Window& window, LoadPlan& plan, BlockIndexes& indexes, Round& out) const;
  void append_broadcasts(const Segment& segment, const Window& window, LoadPlan& plan, Round& out) const;
  void append_shared(const Segment& segment, LoadPlan& plan, BlockIndexes& indexes, Round& out) const;

  const PlanContext& context_;
  std::vector<Window> windows_;
  Window open_;
  Need need_;  // of open_
  std::size_t rounds_ = 0;
  std::uint64_t segments_ = 0;  // so far
};

}  // namespace slabload
