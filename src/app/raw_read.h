// The ceiling that a load is measured against: the same ranks read the same bytes with plain pread.
#pragma once

#include <cstdint>
#include <optional>

#include "app/session.h"
#include "plan/load_plan.h"

namespace slabload {

// Reads with pread, into memory touched beforehand, what `plan` has this rank read; returns GB/s over all
// ranks (all bytes over the slowest rank's time). Nothing if some tensor does not lie contiguously in its
// file. Collective.
std::optional<double> raw_read_rate(Session& session, const TensorIndex& index, const LoadPlan& plan,
                                    Monitor& monitor);

// The share (0 to 1) of the files' pages that are in this node's page cache.
double resident_share(const TensorIndex& index);
// Writes out and drops the files' pages from this node's page cache.
void evict(const TensorIndex& index);

}  // namespace slabload
