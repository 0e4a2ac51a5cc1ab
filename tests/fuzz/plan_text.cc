// The words that `plan` takes, a line each: what is accepted is planned, proved, and played through with its bytes.
#include <cmath>

#include "base/glob.h"
#include "cli/options.h"
#include "fakes/plan_runner.h"
#include "fuzz/fuzz.h"
#include "index/table.h"
#include "layout/name_pattern.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "report/explain.h"

using namespace slabload;
using fuzz::must;
using fuzz::taken;

namespace {

constexpr std::uint64_t kMostRanks = 12;  // for which plans are made
constexpr const char* kTable =
    "model.embed_tokens.weight\tbf16\t53,8\nmodel.layers.0.self_attn.q_proj.weight\tbf16\t16,8\n"
    "model.layers.0.mlp.down_proj.weight\tf32\t8,24\nmodel.layers.0.norm.weight\tf32\t8\nscalar\ti64\t\nnone\tf16\t0,4\n";
constexpr const char* kRules =
    R"j({"rules": [{"match": "*.weight", "placements": {"a": "S(0)", "b": "S(-1)"}}], "default": {}})j";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (;;) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

// Small texts, each on its own.
void check_word(const std::string& word, const std::string& next) {
  taken({Status::usage}, [&] {
    const Mesh mesh = Mesh::parse(word);
    must(mesh.text() == word || Mesh::parse(mesh.text()).text() == mesh.text(), "a mesh, printed and parsed again");
    for (std::uint64_t rank : {std::uint64_t{0}, mesh.ranks() / 2, mesh.ranks() - 1})
      must(mesh.rank_of(mesh.coordinate(rank)) == rank, "a rank's coordinate and back");
  });
  taken({Status::usage}, [&] {
    const Costs costs = Costs::parse(word);
    Costs::parse(costs.text());
  });
  taken({Status::usage}, [&] {
    const Placement placement = Placement::parse(word);
    must(Placement::parse(placement.text()).text() == placement.text(), "a placement, printed and parsed again");
  });
  taken({Status::usage}, [&] {
    const std::uint64_t bytes = parse_bytes(word, "size");
    std::string text = format_binary(bytes);
    std::erase(text, ' ');
    if (text.ends_with("bytes")) text.resize(text.size() - 5);
    must(parse_bytes(text, "size") == bytes, "a size, printed and parsed again");
  });
  taken({Status::usage}, [&] {
    const double seconds = parse_seconds(word, "time");
    must(std::isfinite(seconds) && seconds >= 0, "a time that can be waited");
  });
  // Two matchers that were written apart.
  if (word.find('\0') == std::string::npos && next.find('\0') == std::string::npos && word.size() < 64) {
    if (auto pattern = NamePattern::parse(word)) {
      const auto captures = pattern->match(next);
      must(captures.has_value() == glob_match(word, next), "the globs agree");
      must(!captures || captures->size() == pattern->captures(), "a capture per wildcard");
    }
  }
}

// As verb_plan.cc does, but for files.
void check_plan(const RunOptions& options) {
  TensorIndex index = select_tensors(parse_table(kTable, "table.tsv"), options.selection);
  std::optional<Mesh> mesh;
  if (!options.mesh.empty()) mesh = Mesh::parse(options.mesh);
  const std::uint64_t ranks = options.ranks ? *options.ranks : mesh ? mesh->ranks() : 1;
  if (ranks > kMostRanks) return;
  const Layout layout = options.layout.ends_with(".json")
                            ? Layout::from_json(kRules, options.layout, mesh, ranks)
                            : Layout::preset(options.layout, mesh.value_or(Mesh({{"dp_shard", ranks}})));
  if (layout.mesh().ranks() > kMostRanks) return;
  PlanParams params;
  params.strategy = options.strategy;
  params.staging = options.staging;
  params.pinned = options.device == "cuda";
  params.slots = options.slots;
  params.slot_bytes = options.slot_bytes;
  params.min_read = options.min_read;
  params.align = options.align;
  params.costs = Costs::parse(options.cost);
  params.nodes = NodeMap(options.ranks_per_node);
  params.cast = options.cast;
  std::vector<LoadPlan> plans;
  SimulateOptions how;
  how.watch = [&](const LoadPlan& plan) { plans.push_back(plan); };
  const PlanSummary summary = simulate(index, layout, params, how);
  must(summary.validated && plans.size() == layout.mesh().ranks(), "a plan for every rank, proved");
  if (params.strategy != "every-rank")
    must(summary.read_bytes.sum == summary.selected_bytes, "every byte is read once");
  must(std::isfinite(time_bound(summary, params.costs)), "a bound");
  testing::run_plans(index, plans);
  if (const TensorMeta* tensor = index.find(options.explain))
    must(!explain_text({index, static_cast<std::uint32_t>(tensor - index.tensors.data()), tensor->name, layout, params}).empty(),
         "an explanation");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> words = lines_of(fuzz::text_of(data, size));
  for (std::size_t i = 0; i < words.size() && i < 16; ++i) check_word(words[i], words[(i + 1) % words.size()]);
  for (const std::string& word : words) {
    if (word.find("config") != std::string::npos) return 0;  // would read a file of any name
  }
  words.insert(words.begin(), "plan");
  CommandLine line;
  auto nothing = [](const std::string&) { return std::optional<std::string>(); };
  if (!taken({Status::usage}, [&] { line = parse_command_line(words, nothing); }) || line.help) return 0;
  taken({Status::usage}, [&] { check_plan(line.options); });
  return 0;
}
