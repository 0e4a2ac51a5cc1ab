// slabload bench
#include "app/bench_job.h"
#include "backend/host/tool.h"
#include "cli/verbs.h"
#include "report/bench_plot.h"

namespace slabload {
namespace {

constexpr double kToolTimeoutS = 60;

std::string drawn(const std::string& script) {
  return host::output_of("gnuplot", {}, script, kToolTimeoutS);
}

}  // namespace

Status run_bench(Session& session, const RunOptions& options) {
  auto watchdog = session.watch(options.timeout_s, "");
  // Before the measurements, not after them.
  together(session.control(), [&] {
    if (session.is_root() && !options.plot_file.empty()) drawn("set terminal svg\n");
  });
  BenchReport report = run_bench_job(session, options, *watchdog);
  watchdog.reset();
  together(session.control(), [&] {
    if (!session.is_root()) return;
    if (!options.json_file.empty()) write_text(options.json_file, to_json(report));
    if (!options.csv_file.empty()) write_text(options.csv_file, to_csv(report));
    if (!options.plot_file.empty()) write_text(options.plot_file, drawn(bench_plot_script(report)));
    print(to_text(report));
  });
  return Status::ok;
}

}  // namespace slabload
