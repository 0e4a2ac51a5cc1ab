// What one rank did in a load: the numbers a report is made from.
#pragma once

#include <cstdint>

namespace slabload {

// Plain 64-bit fields only: ranks send it as bytes.
struct RankStats {
  // Seconds of this rank in each phase. `read` is the time in storage calls; `verify` is the checksum time,
  // also where it is taken while reading; `total` is from the first open to the end of verification.
  double open_s = 0;    // index received, files and datasets opened
  double plan_s = 0;    // plan made and agreed on, memory mapped and its pages made present
  double memory_s = 0;  // the part of plan_s that made pages present
  double read_s = 0;
  double copy_s = 0;  // packing, unpacking, conversion
  double fill_s = 0;  // waiting for other ranks' bytes
  double verify_s = 0;
  double write_s = 0;   // a save: the time in the sink's writes
  double create_s = 0;  // a save: the file made, its space reserved
  double commit_s = 0;  // a save: synced, marked, renamed
  double total_s = 0;
  // From the timeline: how long copies or fills were under way, which with a device or a fabric that works by
  // itself is beside everything else, and the part of it during which this rank was reading.
  double moving_s = 0;
  double hidden_s = 0;
  double wait_s = 0;  // this rank did nothing but wait for a slot or a fill

  std::uint64_t read_bytes = 0;  // tensor bytes requested from the file system
  std::uint64_t read_requests = 0;
  std::uint64_t write_bytes = 0;  // a save
  std::uint64_t write_requests = 0;
  std::uint64_t copy_bytes = 0;
  std::uint64_t fill_bytes = 0;    // received from other ranks
  std::uint64_t leaving_bytes = 0;  // what the plan's fills send over this rank's link
  std::uint64_t verify_bytes = 0;  // bytes run through a checksum
  std::uint64_t shard_bytes = 0;
  std::uint64_t staging_peak = 0;  // bytes of staging allocated (with what a baseline keeps aside)
  std::uint64_t rss_peak = 0;      // the kernel's VmHWM
  std::uint64_t device_peak = 0;   // device memory that the load allocated: shards and scratch; 0 on the host
  std::uint64_t fabric_bytes = 0;  // device memory that the fabric (NCCL) took for itself, besides
  std::uint64_t ring_slots = 0;    // slots of pinned memory that reads landed in; 0 on the host
  std::uint64_t ring_slot_bytes = 0;
  std::uint64_t datasets_opened = 0;
  std::uint64_t node = 0;  // which node, numbered by its lowest rank
};

}  // namespace slabload
