// The timelines of all ranks as one file in Trace Event Format, which Perfetto and chrome://tracing open.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/timeline.h"
#include "index/tensor_index.h"

namespace slabload {

struct RankTimeline {
  std::string host;
  // This rank's now_s() just after a barrier of all ranks: the hosts' clocks have nothing else in common.
  double origin_s = 0;
  Timeline timeline;
};

// A byte string that rebuilds it on rank 0; from_bytes throws Status::internal on anything malformed.
std::string to_bytes(const RankTimeline& rank);
RankTimeline rank_timeline_from_bytes(std::string_view bytes);

// How many spans each rank may send to rank 0 (see Timeline::coarsen), so that the file of a job of any size
// stays one that a browser opens: a million in all, but 64 of a rank.
std::size_t spans_to_send(std::size_t ranks);

// Writes the JSON in pieces of about 64 KiB; entry r of `ranks` is rank r's. A process per rank, a row per
// phase (several where spans of one phase overlap), a complete event per span, named after its tensor, with
// its phase as category. Times are in microseconds from the first begin of any rank. The tensor numbers are
// those of `index`.
using WritePiece = std::function<void(std::string_view piece)>;
void write_timeline(const std::vector<RankTimeline>& ranks, const TensorIndex& index,
                    const WritePiece& write);

// The same in one string.
std::string timeline_json(const std::vector<RankTimeline>& ranks, const TensorIndex& index);

}  // namespace slabload
