// slabload save
#include <string_view>
#include <unordered_map>

#include "app/load_job.h"
#include "app/save_job.h"
#include "backend/host/device.h"
#include "backend/safetensors/staged_shards.h"
#include "cli/verbs.h"
#include "base/crc64.h"
#include "base/stop_signal.h"
#include "base/stopwatch.h"

namespace slabload {
namespace {

SaveReport save_checkpoint(Session& session, const RunOptions& options, Watchdog& watchdog) {
  RunOptions loading = options;
  loading.checkpoint = options.from;
  // --verify shards is about what is written.
  if (options.verify == VerifyMode::shards) loading.verify = VerifyMode::checksum;
  LoadJob job(session, loading);
  // What cannot be carried over must not be lost without a word, least of all where the source is replaced.
  together(session.control(), [&] { refuse_skipped(job.index(), options.selection); });
  SaveJob saving(session, options, job.layout(), job.hardware());
  SaveSource source;
  source.index = job.index();
  for (TensorMeta& tensor : source.index.tensors) tensor.dtype = final_dtype(tensor, options.cast);
  source.index = plain_index(std::move(source.index));
  saving.check(source.index);  // before anything is read
  Loaded loaded = job.run(job.chosen_strategy(), loading.verify, watchdog);
  if (!loaded.result.wrong.empty())
    fail_agreed(Status::wrong_data, wrong_data_text(loaded.report) + "; nothing was saved");
  source.shards.space = loaded.result.shards->data();
  source.device = loaded.device;
  source.name = options.from;
  source.seconds = loaded.report.total_s();
  SaveReport report = saving.run(source, watchdog);
  report.notes.insert(report.notes.end(), loaded.report.notes.begin(), loaded.report.notes.end());
  if (loaded.result.unverified != 0) {
    report.notes.push_back(fmt::format("{} of {} tensors of the source have no checksum: what was read of them is unverified",
                                       loaded.result.unverified, loaded.report.tensors));
  }
  return report;
}

// This rank's shards of the tensors, as the planner lays them out.
std::unique_ptr<DeviceMemory> read_shards(StagedShards& staged, const std::vector<std::size_t>& numbers, const SavePlan& plan,
                                          Device& device, Watchdog& watchdog) {
  std::unique_ptr<DeviceMemory> memory = device.allocate(plan.load.shard_bytes, "the shards");
  for (std::size_t t = 0; t < numbers.size(); ++t) {
    const ShardPlace& shard = plan.load.shards[t];
    const std::uint64_t size = dtype_size(plan.load.dtypes[t]);
    watchdog.at("read (staged shards)", &staged.index().tensors[numbers[t]].name);
    for_each_dense_part(shard.box, shard.blocks, [&](const Box& whole, std::uint64_t element) {
      std::byte* to = memory->data() + shard.offset + element * size;
      // In pieces, which bounds the buffer between file and shard.
      const std::uint64_t piece = std::max<std::uint64_t>(1, (8 << 20) / size);
      for (std::uint64_t begin = 0; begin < whole.elements(); begin += piece) {
        for (const Box& box : flat_boxes_in(whole, {begin, std::min(whole.elements(), begin + piece)})) {
          check_stop("shards were being read, and nothing was written");
          device.prepare(to, box.elements() * size);
          staged.read(numbers[t], box, to);
          to += box.elements() * size;
        }
      }
    });
  }
  return memory;
}

SaveReport save_staged(Session& session, const RunOptions& options, Watchdog& watchdog) {
  Control& control = session.control();
  const auto rank = static_cast<std::uint64_t>(session.rank());
  const auto ranks = static_cast<std::uint64_t>(session.ranks());
  if (options.cast) fail_agreed(Status::usage, "--cast: shards are saved as they are; cast when they are loaded");
  if (options.device == "cuda") fail_agreed(Status::usage, "--device cuda: staged shards are saved by way of host memory");
  Stopwatch watch;
  RunOptions host = options;
  host.device = "host";
  std::unique_ptr<StagedShards> staged;
  std::unique_ptr<Layout> layout;
  SaveSource source;
  std::vector<std::size_t> numbers;
  together(control, [&] {
    staged = std::make_unique<StagedShards>(options.stage_in, rank);
    IndexWish wish{options.selection, options.expect, "", "", {}};
    source.index = wished_index(staged->index(), wish);
    std::unordered_map<std::string_view, std::size_t> number_of;
    for (std::size_t t = 0; t < staged->index().tensors.size(); ++t) number_of[staged->index().tensors[t].path] = t;
    for (const TensorMeta& tensor : source.index.tensors) numbers.push_back(number_of.at(tensor.path));
    // As they lie, if nothing else was asked for: then each rank needs its own file only.
    const bool as_staged = options.mesh.empty() && options.layout == RunOptions().layout &&
                           staged->layout().mesh().ranks() == ranks;
    const std::string rules = is_rules_file(options.layout) ? read_text(options.layout) : "";
    layout = std::make_unique<Layout>(as_staged ? staged->layout() : make_layout(options, ranks, rules));
  });
  // In node-local folders the ranks see different files: they must be of one load.
  std::uint64_t low = crc64_part(staged->set().data(), staged->set().size());
  std::uint64_t high = low;
  control.min({&low, 1});
  control.max({&high, 1});
  if (low != high) {
    fail_agreed(Status::file, fmt::format("--stage-in {}: the ranks see shards of different loads under that name",
                                          printable(options.stage_in)));
  }
  Hardware hardware(session, host);
  SaveJob saving(session, host, *layout, hardware);
  saving.check(source.index);
  source.device = hardware.device();
  std::unique_ptr<DeviceMemory> memory;
  together(control, [&] {
    memory = read_shards(*staged, numbers, saving.plan(source.index), *source.device, watchdog);
  });
  source.shards.space = memory->data();
  source.name = options.stage_in;
  source.seconds = watch.seconds();
  SaveReport report = saving.run(source, watchdog);
  report.notes.push_back(
      "staged shards have no checksums and no HDF5 attributes: what was read of them is unverified, and only the "
      "checkpoint's metadata came with them");
  return report;
}

}  // namespace

Status run_save(Session& session, const RunOptions& options) {
  // Lives longest: what is freed at the end may hang as well.
  auto watchdog = session.watch(options.timeout_s, "save");
  watchdog->at("open", nullptr);
  SaveReport report = options.stage_in.empty() ? save_checkpoint(session, options, *watchdog)
                                               : save_staged(session, options, *watchdog);
  watchdog->end_progress();
  watchdog->at("end", nullptr);
  together(session.control(), [&] {
    if (!session.is_root()) return;
    if (!options.report.empty()) write_text(options.report, to_json(report));
    print(to_text(report));
  });
  return Status::ok;
}

}  // namespace slabload
