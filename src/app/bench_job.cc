#include "app/bench_job.h"

#include <algorithm>

#include "app/raw_read.h"
#include "base/version.h"

namespace slabload {
namespace {

// Each node drops the files from its own page cache; returns the largest share that stayed.
double make_cold(Session& session, const TensorIndex& index) {
  std::uint64_t parts_per_million = 0;
  together(session.control(), [&] {
    if (!session.leads_node()) return;
    evict(index);
    parts_per_million = static_cast<std::uint64_t>(resident_share(index) * 1e6);
  });
  session.control().max({&parts_per_million, 1});
  return static_cast<double>(parts_per_million) / 1e6;
}

BenchRun measured(const LoadReport& report) {
  BenchRun run;
  run.strategy = report.strategy;
  run.total_s = report.total_s();
  for (const RankStats& rank : report.per_rank) {
    run.startup_s = std::max(run.startup_s, rank.open_s + rank.plan_s);
    run.read_s = std::max(run.read_s, rank.read_s);
    run.fill_s = std::max(run.fill_s, rank.fill_s);
    run.verify_s = std::max(run.verify_s, rank.verify_s);
  }
  run.bytes = report.selected_bytes;
  run.read_bytes = report.read_bytes();
  run.fill_bytes = report.fill_bytes();
  run.rss_peak_max = report.rss_peak_max();
  for (const RankStats& rank : report.per_rank) run.rss_peaks.push_back(rank.rss_peak);
  run.rss_peak_rank0 = report.per_rank.empty() ? 0 : report.per_rank.front().rss_peak;
  return run;
}

}  // namespace

BenchReport run_bench_job(Session& session, const RunOptions& options, Watchdog& watchdog) {
  LoadJob job(session, options);
  BenchReport report;
  report.version = kVersion;
  report.checkpoint = options.checkpoint;
  report.mesh = job.layout().mesh().text();
  report.layout = job.layout().name();
  report.cache = options.cold ? "cold" : "warm";
  report.ranks = static_cast<std::uint64_t>(session.ranks());
  report.warmup = options.warmup;
  report.notes = load_notes(job.index(), job.layout(), options);

  std::unique_ptr<Planner> slab;
  LoadPlan slab_plan;
  together(session.control(), [&] {
    slab = Planner::make(job.index(), job.layout(), job.params_for("slab"));
    slab_plan = slab->plan(static_cast<std::uint64_t>(session.rank()));
  });

  // Strategies take turns within a repeat, so that a change in the machine's load meets all of them.
  for (std::uint64_t round = 0; round < options.warmup + options.repeat; ++round) {
    bool counts = round >= options.warmup;
    std::optional<double> resident;
    if (options.cold) make_cold(session, job.index());
    std::optional<double> ceiling = raw_read_rate(session, job.index(), slab_plan, watchdog);
    for (const std::string& strategy : options.strategies) {
      if (options.cold) resident = make_cold(session, job.index());
      Loaded loaded = job.run(strategy, options.verify, watchdog);
      if (!loaded.result.wrong.empty()) {
        const std::string& name = job.index().tensors[loaded.result.wrong.front().tensor].name;
        fail_agreed(Status::wrong_data, fmt::format("{}: {} loaded wrong data: tensor {}", options.checkpoint,
                                                    strategy, printable(name)));
      }
      report.device = loaded.report.device;
      report.fabric = loaded.report.fabric;
      report.io = loaded.report.io;
      report.hosts = loaded.report.hosts;
      if (!counts || !session.is_root()) continue;
      BenchRun run = measured(loaded.report);
      run.repeat = round - options.warmup;
      run.ceiling_gbps = ceiling.value_or(0);
      run.resident_share = resident;
      report.runs.push_back(run);
    }
  }
  if (job.index().total_bytes() > 0 && !report.runs.empty() && report.runs.front().ceiling_gbps == 0) {
    report.notes.push_back("no raw ceiling: not every tensor lies contiguously in its file");
  }
  return report;
}

}  // namespace slabload
