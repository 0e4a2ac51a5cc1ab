// slabload save
#include "app/load_job.h"
#include "app/save_job.h"
#include "cli/verbs.h"

namespace slabload {

Status run_save(Session& session, const RunOptions& options) {
  // Lives longest: what is freed at the end may hang as well.
  auto watchdog = session.watch(options.timeout_s, "save");
  watchdog->at("open", nullptr);
  RunOptions loading = options;
  loading.checkpoint = options.from.empty() ? options.stage_in : options.from;
  loading.verify = options.verify == VerifyMode::none ? VerifyMode::none : VerifyMode::checksum;
  LoadJob job(session, loading);
  std::vector<DType> dtypes;
  for (const TensorMeta& tensor : job.index().tensors) dtypes.push_back(final_dtype(tensor, options.cast));
  SaveJob saving(session, options, job.layout(), job.hardware());
  saving.check(SaveJob::target_of(job.index(), dtypes));  // before anything is read
  Loaded loaded = job.run(job.chosen_strategy(), loading.verify, *watchdog);
  if (!loaded.result.wrong.empty())
    fail_agreed(Status::wrong_data, wrong_data_text(loaded.report) + "; nothing was saved");
  SaveSource source{SaveJob::target_of(job.index(), dtypes),
                    {loaded.result.shards->data(), {}},
                    loaded.device,
                    loading.checkpoint,
                    loaded.report.total_s()};
  SaveReport report = saving.run(source, *watchdog);
  report.notes.insert(report.notes.end(), loaded.report.notes.begin(), loaded.report.notes.end());
  watchdog->end_progress();
  watchdog->at("end", nullptr);
  together(session.control(), [&] {
    if (!session.is_root()) return;
    if (!options.report.empty()) write_text(options.report, to_json(report));
    print(to_text(report));
  });
  return Status::ok;
}

}  // namespace slabload
