// slabload load
#include "app/load_job.h"
#include "cli/verbs.h"

namespace slabload {

Status run_load(Session& session, const RunOptions& options) {
  // Lives longest: what is freed at the end may hang as well.
  auto watchdog = session.watch(options.timeout_s, "load");
  watchdog->at("open", nullptr);
  LoadJob job(session, options);
  Loaded loaded = job.run(job.chosen_strategy(), options.verify, *watchdog);
  if (!options.stage_out.empty() && loaded.result.wrong.empty()) {
    watchdog->at("stage out", nullptr);
    job.stage_out(loaded, options.stage_out);
  }
  if (!options.timeline.empty()) job.write_timeline(loaded, options.timeline);
  watchdog->end_progress();
  watchdog->at("end", nullptr);
  together(session.control(), [&] {
    if (!session.is_root()) return;
    if (!options.report.empty()) write_text(options.report, to_json(loaded.report));
    print(to_text(loaded.report));
  });
  if (loaded.result.wrong.empty()) return Status::ok;
  fail_agreed(Status::wrong_data,
              wrong_data_text(loaded.report) + (options.stage_out.empty() ? "" : "; nothing was staged out"));
}

}  // namespace slabload
