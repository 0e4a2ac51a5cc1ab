// How the cost of planning grows: one rank's own plan with more ranks and with more tensors, and the proof of all ranks'
// plans. Prints a row a case, and the exponents of the growth. From the top folder: make bench-plan
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "index/table.h"
#include "plan/planner.h"
#include "plan/simulate.h"

namespace slabload {
namespace {

TensorIndex table(const std::string& name) {
  std::filesystem::path path = std::filesystem::path(__FILE__).parent_path() / "../tables" / name;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string() + "; run it from the top folder");
  return parse_table(std::string(std::istreambuf_iterator<char>(in), {}), name);
}

// A decoder with the names and the mix of shapes of Qwen2, 12 tensors a layer, as many layers as it takes.
TensorIndex decoder(std::uint64_t tensors) {
  constexpr std::uint64_t kHidden = 1024, kHeads = 256, kInner = 2816, kWords = 151936;
  const std::vector<std::pair<std::string, Shape>> layer = {
      {"input_layernorm.weight", Shape{kHidden}},
      {"self_attn.q_proj.weight", Shape{kHidden, kHidden}},
      {"self_attn.q_proj.bias", Shape{kHidden}},
      {"self_attn.k_proj.weight", Shape{kHeads, kHidden}},
      {"self_attn.k_proj.bias", Shape{kHeads}},
      {"self_attn.v_proj.weight", Shape{kHeads, kHidden}},
      {"self_attn.v_proj.bias", Shape{kHeads}},
      {"self_attn.o_proj.weight", Shape{kHidden, kHidden}},
      {"post_attention_layernorm.weight", Shape{kHidden}},
      {"mlp.gate_proj.weight", Shape{kInner, kHidden}},
      {"mlp.up_proj.weight", Shape{kInner, kHidden}},
      {"mlp.down_proj.weight", Shape{kHidden, kInner}},
  };
  TensorIndex index;
  index.files.push_back({});
  std::uint64_t offset = 0;
  auto add = [&](std::string name, const Shape& shape) {
    TensorMeta tensor;
    tensor.name = std::move(name);
    tensor.path = tensor.name;
    tensor.dtype = DType::bf16;
    tensor.shape = shape;
    tensor.offset = offset;
    tensor.stored_bytes = tensor.bytes();
    offset += tensor.bytes();
    index.tensors.push_back(std::move(tensor));
  };
  add("model.embed_tokens.weight", Shape{kWords, kHidden});
  for (std::uint64_t l = 0; index.tensors.size() + 1 < tensors; ++l) {
    for (const auto& [name, shape] : layer) {
      if (index.tensors.size() + 1 < tensors) add(fmt::format("model.layers.{}.{}", l, name), shape);
    }
  }
  add("model.norm.weight", Shape{kHidden});
  return index;
}

Mesh mesh_of(const std::string& layout, std::uint64_t ranks) {
  if (layout == "hsdp") return Mesh({{"dp_replicate", 8}, {"dp_shard", ranks / 8}});
  if (layout == "fsdp2+tp") return Mesh({{"dp_shard", ranks / 8}, {"tp", 8}});
  return Mesh({{"dp_shard", ranks}});
}

std::uint64_t pieces(const LoadPlan& plan) {
  std::uint64_t sum = 0;
  for (const Round& round : plan.rounds)
    sum += round.reads.size() + round.packs.size() + round.fills.size() + round.unpacks.size();
  return sum;
}

// What `load` does on every rank before it reads: the rules resolved, the ways chosen, this rank's part made.
void own_plan(benchmark::State& state, const TensorIndex& index, const std::string& name, const std::string& strategy,
              std::uint64_t ranks) {
  const Layout layout = Layout::preset(name, mesh_of(name, ranks));
  PlanParams params;
  params.strategy = strategy;
  std::uint64_t own = 0;
  for (auto _ : state) {
    const LoadPlan plan = Planner::make(index, layout, params)->plan(ranks / 3);
    own = pieces(plan);
  }
  state.counters["tensors"] = static_cast<double>(index.tensors.size());
  state.counters["ranks"] = static_cast<double>(ranks);
  state.counters["pieces"] = static_cast<double>(own);
}

// A shard of as many runs as the split factor, two ranks with each.
void strided_plan(benchmark::State& state, std::uint64_t factor) {
  TensorIndex index;
  index.files.push_back({});
  TensorMeta tensor;
  tensor.name = tensor.path = "w";
  tensor.dtype = DType::bf16;
  tensor.shape = Shape{factor * 64, 4};
  tensor.stored_bytes = tensor.bytes();
  index.tensors = {tensor};
  const Mesh mesh({{"a", 4}, {"b", 2}});
  const std::string rules = fmt::format(R"j({{"rules": [{{"match": "*", "placements": {{"a": "SS(0,{})"}}}}]}})j", factor);
  const Layout layout = Layout::from_json(rules, "strided", mesh, mesh.ranks());
  PlanParams params;
  params.strategy = "linear";
  std::uint64_t own = 0;
  for (auto _ : state) {
    const LoadPlan plan = Planner::make(index, layout, params)->plan(3);
    own = pieces(plan) + plan.shards[0].blocks.size();
  }
  state.counters["tensors"] = static_cast<double>(factor);  // what the time is fitted to
  state.counters["ranks"] = static_cast<double>(mesh.ranks());
  state.counters["pieces"] = static_cast<double>(own);
}

void proof(benchmark::State& state, const TensorIndex& index, const std::string& name, const std::string& strategy,
           std::uint64_t ranks) {
  const Layout layout = Layout::preset(name, mesh_of(name, ranks));
  PlanParams params;
  params.strategy = strategy;
  std::uint64_t items = 0;
  SimulateOptions options;
  options.watch = [&](const LoadPlan& plan) { items += pieces(plan); };
  for (auto _ : state) {
    items = 0;
    benchmark::DoNotOptimize(simulate(index, layout, params, options));
  }
  state.counters["tensors"] = static_cast<double>(index.tensors.size());
  state.counters["ranks"] = static_cast<double>(ranks);
  state.counters["pieces"] = static_cast<double>(items) / static_cast<double>(ranks);
}

// The least of all repetitions, since other work on the machine only adds to it.
class Growth : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string name = run.run_name.function_name;
      if (rows_.find(name) == rows_.end()) order_.push_back(name);
      Row& row = rows_[name];
      const double ms = run.GetAdjustedCPUTime();
      if (!row.times.empty()) std::fprintf(stderr, ".");
      row.times.push_back(ms);
      row.tensors = run.counters.at("tensors");
      row.ranks = run.counters.at("ranks");
      row.pieces = run.counters.at("pieces");
    }
  }
  void Finalize() override {
    fmt::print(stderr, "\n");
    fmt::print("{:<44} {:>9} {:>9} {:>11} {:>11} {:>11}\n", "case", "ranks", "tensors", "own pieces", "least", "median");
    fmt::print("{:<44} {:>9} {:>9} {:>11} {:>11} {:>11}\n", "", "", "", "", "(ms)", "(ms)");
    struct Point {
      double x, y;
    };
    std::vector<std::string> series;
    std::map<std::string, std::vector<Point>> points;
    for (const std::string& name : order_) {
      Row& row = rows_[name];
      std::sort(row.times.begin(), row.times.end());
      fmt::print("{:<44} {:>9.0f} {:>9.0f} {:>11.0f} {:>11.3f} {:>11.3f}\n", name, row.ranks, row.tensors, row.pieces,
                 row.times.front(), row.times[row.times.size() / 2]);
      const std::string of = name.substr(0, name.rfind('/'));
      if (points.find(of) == points.end()) series.push_back(of);
      points[of].push_back({std::log(of.find("72b") != std::string::npos ? row.ranks : row.tensors),
                            std::log(row.times.front())});
    }
    // The slope of the logarithms, by least squares.
    fmt::print("\n{:<44} {:>9}\n", "time ~ ranks^e, tensors^e or runs^e", "e");
    for (const std::string& of : series) {
      const std::vector<Point>& all = points[of];
      if (all.size() < 3) continue;
      double x = 0, y = 0, xx = 0, xy = 0;
      for (const Point& p : all) x += p.x, y += p.y;
      x /= static_cast<double>(all.size()), y /= static_cast<double>(all.size());
      for (const Point& p : all) xx += (p.x - x) * (p.x - x), xy += (p.x - x) * (p.y - y);
      fmt::print("{:<44} {:>9.3f}\n", of, xy / xx);
    }
  }

 private:
  struct Row {
    std::vector<double> times;
    double tensors = 0, ranks = 0, pieces = 0;
  };
  std::vector<std::string> order_;
  std::map<std::string, Row> rows_;
};

template <typename Function>
void add(const std::string& name, Function function, const TensorIndex& index, const std::string& layout,
         const std::string& strategy, std::uint64_t ranks) {
  benchmark::RegisterBenchmark(name.c_str(), [=, &index](benchmark::State& state) {
    function(state, index, layout, strategy, ranks);
  })->Unit(benchmark::kMillisecond);
}

void run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const TensorIndex qwen = table("qwen2.5-vl-72b.tsv");
  const std::vector<std::string> layouts = {"fsdp2", "hsdp", "replicate", "fsdp2+tp"};
  for (const std::string strategy : {"auto", "slab", "linear"}) {
    for (const std::string& layout : layouts) {
      for (std::uint64_t ranks : {64, 256, 1024, 4096, 16384, 131072}) {
        const std::string name = fmt::format("own/72b/{}/{}/{}", layout, strategy, ranks);
        add(name, own_plan, qwen, layout, strategy, ranks);
      }
    }
  }
  std::map<std::uint64_t, TensorIndex> decoders;
  for (std::uint64_t tensors : {1000, 10000, 100000, 1000000}) decoders.emplace(tensors, decoder(tensors));
  for (const std::string& layout : layouts) {
    for (std::uint64_t ranks : {256, 16384}) {
      for (const auto& [tensors, index] : decoders) {
        const std::string name = fmt::format("own/decoder/{}/auto/{}/{}", layout, ranks, tensors);
        add(name, own_plan, index, layout, "auto", ranks);
      }
    }
  }
  for (const std::string& layout : layouts)
    add(fmt::format("proof/72b/{}/auto/1024", layout), proof, qwen, layout, "auto", 1024);
  for (std::uint64_t factor : {1024, 4096, 16384, 65536}) {
    benchmark::RegisterBenchmark(fmt::format("own/strided/{}", factor).c_str(), [=](benchmark::State& state) {
      strided_plan(state, factor);
    })->Unit(benchmark::kMillisecond);
  }
  Growth growth;
  benchmark::RunSpecifiedBenchmarks(&growth);
}

}  // namespace
}  // namespace slabload

int main(int argc, char** argv) {
  try {
    slabload::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
