#include "app/scan_job.h"

#include <algorithm>

#include "backend/host/device.h"
#include "backend/mpi/fabric.h"
#include "base/stopwatch.h"

namespace slabload {

Scan scan_checkpoint(Session& session, const std::string& path, const RunOptions& options,
                     Watchdog& watchdog) {
  Stopwatch watch;
  watchdog.at("open", nullptr);
  Scan scan;
  scan.index = shared_index(session, path, {options.selection, "", "", "", {options.trust_index, options.timeout_s}});
  // Each rank reads other tensors, so a collective read has no partner.
  IoMode io = options.io == IoMode::collective ? IoMode::independent : options.io;
  std::unique_ptr<Storage> storage = open_storage(session, scan.index, io, options.hints);
  host::HostDevice device;
  mpi::MpiFabric fabric(session.world());
  constexpr std::uint64_t kPiece = 8 * kMiB;
  LoadPlan plan = plan_scan(scan.index, static_cast<std::uint64_t>(session.ranks()),
                            static_cast<std::uint64_t>(session.rank()), std::min(options.staging, kPiece));
  Loader loader(scan.index, {*storage, device, fabric, session.control(), watchdog}, {});
  Timeline timeline;
  RankStats stats;
  scan.result = loader.run(plan, stats, timeline);
  scan.io = storage->description();
  std::uint64_t microseconds = static_cast<std::uint64_t>(watch.seconds() * 1e6);
  session.control().max({&microseconds, 1});
  scan.seconds = static_cast<double>(microseconds) / 1e6;
  scan.bytes = storage->counters().bytes;
  session.control().sum({&scan.bytes, 1});
  return scan;
}

}  // namespace slabload
