// slabload plan
#include "app/checkpoint.h"
#include "app/load_job.h"
#include "base/version.h"
#include "cli/verbs.h"
#include "plan/simulate.h"
#include "report/plan_report.h"

namespace slabload {
namespace {

std::uint64_t planned_ranks(const RunOptions& options) {
  if (options.ranks) return *options.ranks;
  return options.mesh.empty() ? 1 : Mesh::parse(options.mesh).ranks();
}

}  // namespace

Status run_plan(const RunOptions& options, bool speaks) {
  TensorIndex index = options.table.empty() ? read_index(options.checkpoint) : read_table(options.table);
  index = select_tensors(std::move(index), options.selection);
  if (!options.expect.empty()) check_expected(index, options.expect);
  std::string rules = is_rules_file(options.layout) ? read_text(options.layout) : "";
  std::uint64_t ranks = planned_ranks(options);
  if (!options.ranks && options.mesh.empty() && is_rules_file(options.layout)) {
    // The rules file may bring the mesh, and so the number of ranks.
    ranks = Layout::from_json(rules, options.layout, std::nullopt, 1).mesh().ranks();
  }
  Layout layout = make_layout(options, ranks, rules);
  if (!options.explain.empty()) {
    const TensorMeta* tensor = index.find(options.explain);
    if (tensor == nullptr)
      fail(Status::usage, "--explain: there is no tensor {}", printable(options.explain));
    if (speaks) print(explain_text(*tensor, layout));
    return Status::ok;
  }
  PlanParams params =
      plan_params(options, options.strategy == "auto" ? "slab" : options.strategy, options.device == "cuda");
  PlanReport report;
  report.version = kVersion;
  report.checkpoint = options.table.empty() ? options.checkpoint : options.table;
  report.mesh = layout.mesh().text();
  report.layout = layout.name();
  report.strategy = params.strategy;
  report.staging_budget = options.staging;
  report.notes = load_notes(index, layout, options);
  report.keep_ranks = options.full || options.json;
  report.summary = simulate(index, layout, params, report.keep_ranks ? &report.per_rank : nullptr);
  Machine machine = parse_machine(options.cost);
  report.bound_s = time_bound(report.summary, machine);
  if (!speaks) return Status::ok;
  std::string json = to_json(report);
  if (!options.report.empty()) write_text(options.report, json);
  print(options.json ? json : to_text(report));
  return Status::ok;
}

}  // namespace slabload
