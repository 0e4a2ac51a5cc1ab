// Strategy `slab`: every rank reads only its own slab, replicas read a part each, and the rest is filled in.
//
// Per tensor, the ranks that hold the same box (a cell) are replicas of each other. Two ways, chosen once for
// all ranks:
// - direct: a cell's owners each read one part of it straight to its final place; an all-gather in place
// brings the
//   other parts. Taken where a part is one contiguous run of the file of at least `min_read` bytes.
// - shared: where parts would be smaller (small tensors, many ranks, columns), requests are merged instead:
// such tensors, laid
//   end to end in file order, form windows; all ranks read an even share of a window each, in few wide
//   requests, and send the pieces to the owners.
// Rounds bound what a rank has in staging; all ranks have the same rounds.
#pragma once

#include <vector>

#include "plan/planner.h"
#include "plan/staging.h"

namespace slabload {

class SlabPlanner final : public Planner {
 public:
  SlabPlanner(const TensorIndex& index, const Layout& layout, const PlanParams& params);
  LoadPlan plan(std::uint64_t rank) const override;
  std::string why() const override;

 private:
  // What is decided per tensor, the same for all ranks.
  struct Choice {
    TensorLayout layout;
    DType dtype = DType::f32;       // final
    std::uint64_t source_size = 1;  // bytes of a stored element
    std::uint64_t final_size = 1;
    Box largest;  // the largest shard: coordinate 0 on every axis
    std::uint64_t replicas = 1;
    std::uint32_t mask = 0;  // replicated mesh axes
    bool sharded = false;    // some axis shards it
    bool strided = false;    // a shard is several runs of the flattened tensor
    bool direct = false;
    std::uint64_t grain = 1;  // direct: unit of a cell's parts; shared: unit of cuts in the tensor; elements
    std::uint64_t piece = 0;  // direct: elements of the cell that one round's items cover
  };
  struct DirectPiece {
    std::uint32_t tensor;
    std::uint64_t number;
  };
  struct Segment {
    std::uint32_t tensor;
    FlatRange range;
    std::uint64_t window_offset;  // stored bytes of the window before it
  };
  struct Window {
    std::vector<Segment> segments;
    std::uint64_t bytes = 0;  // stored
  };
  struct RoundOutline {
    std::vector<DirectPiece> direct;
    Window window;
    std::vector<ReadStep> steps;  // direct pieces first, then segments
  };
  // What a window needs of the staging of any one rank, as it grows.
  struct Need {
    std::uint64_t staged_bytes = 0;  // stored bytes of the window
    std::uint64_t read_bytes =
        0;  // of those, bytes that must pass through staging when read (not owned by all)
    std::uint64_t largest_grain = 0;  // bytes, final type
    std::uint64_t unpack_bytes = 0;   // what arrives in staging to be spread out
    std::uint64_t widening = 1;       // the largest final size / stored size
    bool strided = false;
    std::uint64_t total(std::uint64_t ranks) const;
  };

  Choice choose(const TensorMeta& tensor);
  Need grown(const Need& need, const Choice& choice, const TensorMeta& tensor, std::uint64_t elements) const;
  std::uint64_t smallest_need(const TensorMeta& tensor, Choice& choice, std::uint64_t capacity) const;
  void outline_rounds();
  void outline_direct(std::uint32_t t);
  void outline_shared(std::uint32_t t);
  void close_direct();
  void close_window();
  std::uint32_t direct_calls(std::uint32_t t) const;

  FlatRange share_of(const Segment& segment, std::uint64_t window_bytes, std::uint64_t reader) const;
  void plan_direct(const DirectPiece& piece, std::uint32_t step, LoadPlan& plan, Round& round) const;
  void plan_reading(const Segment& segment, const Window& window, std::uint32_t step, LoadPlan& plan,
                    Round& round) const;
  void plan_receiving(const Segment& segment, const Window& window, LoadPlan& plan, Round& round) const;

  const TensorIndex& index_;
  const Layout& layout_;
  PlanParams params_;
  std::uint64_t ranks_;
  StagingSplit split_;
  std::vector<Choice> choices_;
  std::vector<RoundOutline> rounds_;
  // Outlined separately, then put side by side.
  std::vector<std::vector<DirectPiece>> direct_rounds_;
  std::vector<Window> windows_;
  std::vector<DirectPiece> open_direct_;
  std::uint64_t direct_bytes_ = 0;  // of one rank, in open_direct_
  Window open_window_;
  Need need_;  // of open_window_
};

}  // namespace slabload
