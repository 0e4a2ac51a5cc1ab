// The picture of a bench: time by phase, and peak memory by rank, for each strategy.
#pragma once

#include <string>

#include "report/bench_report.h"

namespace slabload {

// A gnuplot script that draws it as SVG, 1100 x 480, on its standard output. Times are means over the runs of the slowest rank,
// in seconds; memory is in MB, the largest of the runs of each rank.
std::string bench_plot_script(const BenchReport& report);

}  // namespace slabload
