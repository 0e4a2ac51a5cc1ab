// Strategies side by side on the ranks of a session, beside what the file system gives to plain reads.
#pragma once

#include "app/load_job.h"
#include "report/bench_report.h"

namespace slabload {

// Collective; the report is complete on rank 0. Throws Status::wrong_data (agreed) if a run loaded wrong
// data.
BenchReport run_bench_job(Session& session, const RunOptions& options, Watchdog& watchdog);

}  // namespace slabload
