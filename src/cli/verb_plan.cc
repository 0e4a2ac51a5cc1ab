// slabload plan
#include <malloc.h>

#include "app/checkpoint.h"
#include "app/load_job.h"
#include "base/narrow.h"
#include "base/version.h"
#include "cli/verbs.h"
#include "plan/simulate.h"
#include "plan/way_choice.h"
#include "report/explain.h"
#include "report/plan_report.h"
#include "report/plan_svg.h"

namespace slabload {
namespace {

std::uint64_t planned_ranks(const RunOptions& options) {
  if (options.ranks) return *options.ranks;
  return options.mesh.empty() ? 1 : Mesh::parse(options.mesh).ranks();
}

}  // namespace

Status run_plan(const RunOptions& options, bool speaks) {
  // Plan after plan of one size: what one frees serves the next, without a visit to the system.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  TensorIndex index = options.table.empty() ? read_index(options.checkpoint, {options.trust_index, options.timeout_s}) : read_table(options.table);
  std::string rules = is_rules_file(options.layout) ? read_text(options.layout) : "";
  index = wished_index(std::move(index), {options.selection, options.expect, rules, options.layout});
  std::uint64_t ranks = planned_ranks(options);
  if (!options.ranks && options.mesh.empty() && is_rules_file(options.layout)) {
    // The rules file may bring the mesh, and so the number of ranks.
    ranks = Layout::from_json(rules, options.layout, std::nullopt, 1).mesh().ranks();
  }
  Layout layout = make_layout(options, ranks, rules);
  const PlanParams params = plan_params(options, options.strategy, options.device == "cuda");
  if (!options.explain.empty()) {
    const TensorMeta* tensor = index.find(options.explain);
    if (tensor == nullptr)
      fail(Status::usage, "--explain: there is no tensor {}", printable(options.explain));
    const auto number = narrow<std::uint32_t>(tensor - index.tensors.data());
    if (speaks) print(explain_text(index, number, layout, params));
    return Status::ok;
  }
  PlanReport report;
  report.version = kVersion;
  report.checkpoint = options.table.empty() ? options.checkpoint : options.table;
  report.mesh = layout.mesh().text();
  report.layout = layout.name();
  report.strategy = params.strategy;
  report.staging_budget = options.staging;
  report.notes = load_notes(index, layout, options);
  report.keep_ranks = options.full || options.json;
  SimulateOptions how;
  how.validate = !options.statistics;
  if (report.keep_ranks) how.per_rank = &report.per_rank;
  std::optional<PlanSvg> drawing;
  if (!options.svg.empty()) {
    drawing.emplace(index, ranks, fmt::format("{}: {} ranks", report.checkpoint, ranks),
                    fmt::format("mesh {}, layout {}, strategy {}", report.mesh, report.layout, report.strategy));
    how.watch = [&](const LoadPlan& plan) { drawing->add(plan); };
  }
  report.summary = simulate(index, layout, params, how);
  report.bound_s = time_bound(report.summary, params.costs);
  report.costs = params.costs.text();
  report.ranks_per_node = options.ranks_per_node;
  if (!is_baseline(params.strategy)) report.estimates = estimate_strategies(index, layout, params);
  if (!speaks) return Status::ok;
  if (drawing) write_text(options.svg, drawing->text());
  std::string json = to_json(report);
  if (!options.report.empty()) write_text(options.report, json);
  print(options.json ? json : to_text(report));
  return Status::ok;
}

}  // namespace slabload
