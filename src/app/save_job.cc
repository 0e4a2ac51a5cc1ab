#include "app/save_job.h"

#include "app/all_ranks.h"
#include "app/load_job.h"
#include "backend/hdf5/sink.h"
#include "backend/host/device.h"
#include "backend/host/file.h"
#include "base/stopwatch.h"
#include "base/version.h"
#include "plan/staging.h"

namespace slabload {
namespace {

constexpr unsigned kDeflate = 4;                            // of --compress gzip: fast, and close to what 9 saves
constexpr std::uint64_t kCompressedChunk = std::uint64_t{4} << 20;  // if --chunk does not say

Hdf5SinkOptions sink_options(const RunOptions& options) {
  Hdf5SinkOptions out;
  out.chunk_bytes = options.chunk;
  if (options.compress == "gzip") {
    out.deflate = kDeflate;
    if (out.chunk_bytes == 0) out.chunk_bytes = kCompressedChunk;
  }
  out.keep_attributes = true;
  out.reread = options.verify == VerifyMode::shards;
  return out;
}

// The storage that the sink will choose, for a plan made before there is a file.
TensorIndex laid_out(TensorIndex target, const Hdf5SinkOptions& options) {
  std::uint64_t offset = 0;
  for (TensorMeta& tensor : target.tensors) {
    if (options.chunk_bytes != 0) tensor.chunk = hdf5::chunk_shape(tensor, options.chunk_bytes);
    if (!tensor.chunk.empty()) {
      tensor.storage = StorageKind::chunked;
      if (options.deflate != 0) tensor.filters = {"deflate"};
      continue;
    }
    tensor.offset = offset;
    offset += tensor.bytes();
  }
  return target;
}

std::string storage_text(const RunOptions& options, const Hdf5SinkOptions& sink) {
  if (sink.chunk_bytes == 0) return "contiguous";
  std::string out = fmt::format("chunks of whole rows, at most {}", format_binary(sink.chunk_bytes));
  return options.compress == "gzip" ? out + fmt::format(", shuffle and gzip({})", kDeflate) : out;
}

}  // namespace

SaveJob::SaveJob(Session& session, const RunOptions& options, const Layout& layout, Hardware& hardware)
    : session_(session), options_(options), layout_(layout), hardware_(hardware) {
  params_ = plan_params(options_, options_.strategy, hardware_.gpu());
  params_.nodes = NodeMap(session_.nodes());
  params_.cast.reset();  // the shards have been converted
  if (params_.pinned && options_.compress != "none") {
    // A compressed row of chunks passes through the slots as a whole.
    if (std::optional<StagingSplit> split = split_staging(params_, false))
      params_.round_bytes = std::min(params_.round_bytes, split->slots * split->slot_bytes);
  }
}

SavePlan SaveJob::plan(const TensorIndex& target) const {
  const TensorIndex index = laid_out(target, sink_options(options_));
  return SavePlanner(index, layout_, params_).plan(static_cast<std::uint64_t>(session_.rank()));
}

void SaveJob::check(const TensorIndex& target) const {
  agree_on_inputs(session_.control(),
                  inputs_text(target, layout_, params_) + fmt::format("{}\n{} {} {}", options_.out, options_.chunk,
                                                                      options_.compress, options_.force));
  together(session_.control(), [&] { plan(target); });
}

SaveReport SaveJob::run(const SaveSource& source, Watchdog& watchdog) const {
  Control& control = session_.control();
  RankStats stats;
  Timeline timeline;
  const double begin = now_s();
  double since = begin;
  auto lap = [&] {
    const double now = now_s();
    return now - std::exchange(since, now);
  };
  const Hdf5SinkOptions sink_with = sink_options(options_);
  watchdog.at("create", nullptr);
  Hdf5Sink sink(options_.out, control, options_.force, sink_with, session_.world());
  sink.create(source.index);
  stats.create_s = lap();

  watchdog.at("plan", nullptr);
  std::unique_ptr<SavePlanner> planner;
  SavePlan plan;
  together(control, [&] {
    planner = std::make_unique<SavePlanner>(sink.made(), layout_, params_);
    plan = planner->plan(static_cast<std::uint64_t>(session_.rank()));
  });
  std::unique_ptr<Fabric> fabric = hardware_.fabric();
  stats.plan_s += lap();
  Saver saver(sink, {*source.device, *fabric, control, watchdog}, checked_split(params_, false));
  const std::vector<std::uint64_t> crc64 = saver.run(plan, source.shards, stats, timeline);
  lap();
  watchdog.waiting("commit", nullptr);
  sink.commit(crc64);
  stats.commit_s = lap();
  stats.total_s = now_s() - begin;
  stats.rss_peak = host::peak_resident_bytes();
  stats.node = static_cast<std::uint64_t>(session_.node());

  SaveReport report;
  report.version = kVersion;
  report.source = source.name;
  report.checkpoint = options_.out;
  report.mesh = layout_.mesh().text();
  report.layout = layout_.name();
  report.strategy = params_.strategy;
  report.strategy_why = planner->why();
  report.device = source.device->description();
  report.fabric = fabric->description();
  report.storage = storage_text(options_, sink_with);
  report.notes = sink.notes();
  report.tensors = source.index.tensors.size();
  report.tensor_bytes = source.index.total_bytes();
  report.rounds = plan.load.rounds.size();
  report.staging_budget = options_.staging;
  report.reread = sink_with.reread || sink_with.deflate != 0;
  report.source_s = source.seconds;
  together(control, [&] {
    if (session_.is_root()) report.file_bytes = host::file_state(options_.out).size;
  });
  JobRanks ranks = gather_ranks(session_, stats);
  report.ranks = static_cast<std::uint64_t>(session_.ranks());
  report.hosts = ranks.hosts;
  report.ranks_per_node = ranks.per_node;
  report.per_rank = std::move(ranks.stats);
  return report;
}

}  // namespace slabload
