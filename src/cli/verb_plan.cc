// slabload plan
#include <fmt/format.h>

#include <malloc.h>

#include "app/checkpoint.h"
#include "app/load_job.h"
#include "base/error.h"
#include "base/narrow.h"
#include "base/version.h"
#include "cli/near_names.h"
#include "cli/verbs.h"
#include "layout/name_rules.h"
#include "layout/rules_json.h"
#include "plan/simulate.h"
#include "plan/way_choice.h"
#include "report/explain.h"
#include "report/plan_report.h"
#include "report/plan_svg.h"
#include "report/progress.h"

namespace slabload {
namespace {

// A rank's plan takes about a millisecond, and with its proof twice that: more would go on for days.
constexpr std::uint64_t kMostProved = std::uint64_t{1} << 20, kMostPlanned = std::uint64_t{1} << 24;

void check_ranks(std::uint64_t ranks, bool proof) {
  if (ranks <= (proof ? kMostProved : kMostPlanned)) return;
  fail(Status::usage, "plan: {} ranks are too many to plan for one by one: at most {}{}", ranks,
       proof
           ? fmt::format("{}, or {} with --statistics, which leaves the proof out", kMostProved, kMostPlanned)
           : fmt::format("{}", kMostPlanned),
       "; a smaller mesh of the same form shows how the figures grow");
}

// How many, and whether the user said so.
struct PlannedRanks {
  std::uint64_t ranks = 1;
  bool given = true;
};

PlannedRanks planned_ranks(const RunOptions& options, const std::string& rules) {
  if (options.ranks) return {*options.ranks};
  if (!options.mesh.empty()) return {Mesh::parse(options.mesh).ranks()};
  // The rules file may bring the mesh, and so the number of ranks.
  if (!rules.empty() && parse_rules(rules, printable(options.layout)).contains("mesh"))
    return {Layout::from_json(rules, options.layout, std::nullopt, 1).mesh().ranks()};
  return {1, false};
}

TensorIndex read_any(const RunOptions& options) {
  return options.table.empty() ? read_index(options.checkpoint, {options.trust_index, options.timeout_s}) : read_table(options.table);
}

// Why the index has no such tensor: an old name, one that is not selected, or a slip.
[[noreturn]] void no_such_tensor(const RunOptions& options, const std::string& rules,
                                 const TensorIndex& index) {
  const std::string& asked = options.explain;
  const TensorIndex in_file = read_any(options);
  TensorIndex all = in_file;
  if (!rules.empty()) all = rename_tensors(std::move(all), NameRules::from_json(rules, options.layout));
  const std::string lead = fmt::format("--explain: there is no tensor {}", printable(asked));
  const char* left_out = "--select and --exclude leave it out";
  if (all.find(asked) != nullptr) fail(Status::usage, "--explain: tensor {}: {}", printable(asked), left_out);
  // Renaming keeps the order.
  if (const TensorMeta* old = in_file.find(asked)) {
    const TensorMeta& now = all.tensors[static_cast<std::size_t>(old - in_file.tensors.data())];
    fail(Status::usage, "{}: {} renames it to {}{}", lead, printable(options.layout), printable(now.name),
         index.find(now.name) == nullptr ? fmt::format(", and {}", left_out) : "");
  }
  std::vector<std::string> names;
  for (const TensorMeta& tensor : index.tensors) {
    names.push_back(tensor.name);
    names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
  }
  const std::vector<std::string> near = nearest_names(asked, names, 3);
  fail(Status::usage, "{}{}", lead,
       near.empty() ? "; 'slabload inspect --tensors' lists those of a checkpoint"
                    : fmt::format("; near it: {}", fmt::join(near, ", ")));
}

Status explain(const RunOptions& options, const std::string& rules, const TensorIndex& index,
               const Layout& layout, const PlanParams& params, bool speaks) {
  const TensorMeta* tensor = index.find(options.explain);
  if (tensor == nullptr) no_such_tensor(options, rules, index);
  if (!speaks) return Status::ok;
  Progress progress("explain");
  progress.counting("ranks");
  const Explain what{
      index,           narrow<std::uint32_t>(tensor - index.tensors.data()),
      options.explain, layout,
      params,          [&](std::uint64_t ranks) { progress.update(ranks, layout.mesh().ranks()); }};
  const std::string text = options.json ? explain_json(what) : explain_text(what);
  const std::string json = options.report.empty() || options.json ? text : explain_json(what);
  progress.finish();
  if (!options.report.empty()) write_text(options.report, json);
  print(text);
  return Status::ok;
}

}  // namespace

Status run_plan(const RunOptions& options, bool speaks) {
  // Plan after plan of one size: what one frees serves the next, without a visit to the system.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const std::string rules = is_rules_file(options.layout) ? read_text(options.layout) : "";
  const PlannedRanks planned = planned_ranks(options, rules);
  const std::uint64_t ranks = planned.ranks;
  check_ranks(ranks, options.explain.empty() && !options.statistics);
  const TensorIndex index =
      wished_index(read_any(options), {options.selection, options.expect, rules, options.layout, {}});
  const Layout layout = make_layout(options, ranks, rules);
  const PlanParams params = plan_params(options, options.strategy, options.device == "cuda");
  if (!options.explain.empty()) return explain(options, rules, index, layout, params, speaks);
  PlanReport report;
  report.version = kVersion;
  report.checkpoint = options.table.empty() ? options.checkpoint : options.table;
  report.mesh = layout.mesh().text();
  report.layout = layout.name();
  report.strategy = params.strategy;
  report.staging_budget = options.staging;
  report.notes = load_notes(index, layout, options);
  if (!planned.given) {
    report.notes.push_back(fmt::format("note: planned for 1 rank, since {} are missing",
                                       rules.empty()
                                           ? "--ranks and --mesh"
                                           : "--ranks, --mesh and the mesh of " + printable(options.layout)));
  }
  report.keep_ranks = options.full || options.json;
  SimulateOptions how;
  how.validate = !options.statistics;
  if (report.keep_ranks) how.per_rank = &report.per_rank;
  std::optional<PlanSvg> drawing;
  if (!options.svg.empty()) {
    drawing.emplace(
        index, ranks, options.ranks_per_node, fmt::format("{}: {} ranks", report.checkpoint, ranks),
        fmt::format("mesh {}, layout {}, strategy {}", report.mesh, report.layout, report.strategy));
  }
  std::optional<Progress> progress;
  if (speaks) progress.emplace("plan").counting("ranks");
  how.watch = [&](const LoadPlan& plan) {
    if (drawing) drawing->add(plan);
    if (progress) progress->update(plan.rank + 1, ranks);
  };
  report.summary = simulate(index, layout, params, how);
  if (progress) progress->finish();
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
