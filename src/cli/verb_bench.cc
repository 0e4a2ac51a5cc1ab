// slabload bench
#include "app/bench_job.h"
#include "cli/verbs.h"

namespace slabload {

Status run_bench(Session& session, const RunOptions& options) {
  auto watchdog = session.watch(options.timeout_s, "");
  BenchReport report = run_bench_job(session, options, *watchdog);
  watchdog.reset();
  together(session.control(), [&] {
    if (!session.is_root()) return;
    if (!options.json_file.empty()) write_text(options.json_file, to_json(report));
    if (!options.csv_file.empty()) write_text(options.csv_file, to_csv(report));
    print(to_text(report));
  });
  return Status::ok;
}

}  // namespace slabload
