#include "app/load_job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/all_ranks.h"
#include "app/host_memory.h"
#include "backend/host/device.h"
#include "backend/safetensors/shard_file.h"
#include "backend/safetensors/staged_shards.h"
#include "base/crc64.h"
#include "base/stopwatch.h"
#include "base/version.h"
#include "plan/staging.h"
#include "report/timeline_report.h"
#include "tensor/cast.h"

namespace slabload {
namespace {

// Shards that a load on more ranks left here would be taken for part of this one.
void refuse_other_shards(const std::string& folder, int ranks) {
  std::error_code none;  // a folder that is not there yet has no shards
  for (std::filesystem::directory_iterator it(folder, none), end; !none && it != end; it.increment(none)) {
    std::string name = it->path().filename().string();
    unsigned rank = 0;
    int length = 0;
    if (std::sscanf(name.c_str(), "rank-%u.safetensors%n", &rank, &length) == 1 &&
        static_cast<std::size_t>(length) == name.size() && rank >= static_cast<unsigned>(ranks)) {
      fail(Status::file,
           "--stage-out {}: {} is there from a load on more ranks; remove it or choose another folder",
           printable(folder), printable(name));
    }
  }
}

}  // namespace

std::vector<std::string> load_notes(const TensorIndex& index, const Layout& layout,
                                    const RunOptions& options) {
  std::vector<std::string> notes;
  std::uint64_t swapped = 0, narrowed = 0, widened = 0, unwritten = 0;
  std::string first_narrowed;
  for (const TensorMeta& tensor : index.tensors) {
    swapped += tensor.big_endian && dtype_size(tensor.dtype) > 1;
    unwritten += tensor.storage == StorageKind::fill && tensor.bytes() > 0;
    if (!is_converted(tensor, options.cast)) continue;
    bool narrow = is_narrowing(tensor.dtype, *options.cast);
    (narrow ? narrowed : widened) += 1;
    if (narrow && first_narrowed.empty()) {
      first_narrowed = fmt::format("{} {} -> {}", printable(tensor.name), dtype_name(tensor.dtype),
                                   dtype_name(*options.cast));
    }
  }
  if (narrowed != 0) {
    notes.push_back(fmt::format("NARROWING cast of {} tensors, as asked for by --cast {} (the first: {})",
                                narrowed, dtype_name(*options.cast), first_narrowed));
  }
  if (widened != 0)
    notes.push_back(fmt::format("cast of {} tensors to {}", widened, dtype_name(*options.cast)));
  if (swapped != 0)
    notes.push_back(fmt::format("{} tensors are big-endian in the file and were converted", swapped));
  if (unwritten != 0)
    notes.push_back(fmt::format("{} tensors were never written and hold their fill value", unwritten));
  if (!index.skipped.empty()) {
    notes.push_back(fmt::format(
        "{} objects of the file can't be tensors and were skipped (the first: {}, {}); inspect lists them",
        index.skipped.size(), printable(index.skipped.front().name), index.skipped.front().reason));
  }
  auto name_some = [&](const std::vector<std::string>& names, std::string_view what) {
    if (names.empty()) return;
    const std::size_t most = options.full || options.json ? names.size() : 3;
    std::string some;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) some += (i == 0 ? "" : ", ") + printable(names[i]);
    notes.push_back(fmt::format("{} tensor{} {} ({}{})", names.size(), names.size() == 1 ? "" : "s", what, some,
                                names.size() > most ? ", ...; --full names all" : ""));
  };
  name_some(layout.unknown_to_tp(index), "that the tp rules do not know: replicated along tp");
  for (const Layout::LeftWhole& whole : layout.left_whole(index)) name_some(whole.names, whole.reason);
  name_some(layout.storage_differs(index),
            "whose rows FSDP2 over TP stores elsewhere than the placements SS(0,tp) S(0) say");
  for (const Layout::UnusedRule& rule : layout.unused_rules(index)) {
    notes.push_back(fmt::format("WARNING: rule '{}' of {} {}", printable(rule.match), layout.name(),
                                rule.earlier.empty() ? "matches no tensor"
                                                     : fmt::format("is never used: {} takes what it matches first", rule.earlier)));
  }
  return notes;
}

std::string wrong_data_text(const LoadReport& report) {
  const WrongTensor& first = report.wrong.front();
  return fmt::format("{}: {} of {} tensors are wrong: tensor {} has CRC-64 {:016x}, expected {:016x}",
                     report.checkpoint, report.wrong.size(), report.tensors, printable(first.name),
                     first.found, first.expected);
}

LoadJob::LoadJob(Session& session, const RunOptions& options)
    : session_(session), options_(options), index_begin_s_(now_s()) {
  std::string rules;
  together(session.control(), [&] {
    if (session.is_root() && is_rules_file(options.layout)) rules = read_text(options.layout);
  });
  index_ = shared_index(
      session, options.checkpoint,
      {options.selection, options.expect, rules, options.layout, {options.trust_index, options.timeout_s}});
  if (is_rules_file(options.layout)) rules = session.control().broadcast(std::move(rules));
  rules_ = rules;
  together(session.control(), [&] {
    costs_ = Costs::parse(options.cost);
    layout_ =
        std::make_unique<Layout>(make_layout(options, static_cast<std::uint64_t>(session.ranks()), rules));
  });
  hardware_ = std::make_unique<Hardware>(session, options);
  nodes_ = session.nodes();
  index_s_ = now_s() - index_begin_s_;
}

std::string LoadJob::chosen_strategy() const {
  return options_.strategy;
}

PlanParams plan_params(const RunOptions& options, const std::string& strategy, bool pinned) {
  PlanParams params;
  params.strategy = strategy;
  params.staging = options.staging;
  params.pinned = pinned;
  params.slots = options.slots;
  params.slot_bytes = options.slot_bytes;
  params.min_read = options.min_read;
  params.align = options.align;
  params.costs = Costs::parse(options.cost);
  params.nodes = NodeMap(options.ranks_per_node);
  params.cast = options.cast;
  if (pinned && options.io == IoMode::collective) {
    // A collective read is not cut on its way, so none may be larger than the slots.
    if (std::optional<StagingSplit> split = split_staging(params, params.cast.has_value())) {
      std::uint64_t room = split->slots * split->slot_bytes;
      params.round_bytes = std::min(params.round_bytes, room / 2);
      params.read_limit = std::min(params.read_limit, room);
    }
  }
  return params;
}

PlanParams LoadJob::params_for(const std::string& strategy) const {
  PlanParams params = plan_params(options_, strategy, hardware_->gpu());
  params.nodes = NodeMap(nodes_);
  return params;
}

LoadReport LoadJob::describe(const std::string& strategy, const Planner& planner) const {
  LoadReport report;
  report.version = kVersion;
  report.checkpoint = options_.checkpoint;
  report.mesh = layout_->mesh().text();
  report.layout = layout_->name();
  report.strategy = strategy;
  report.strategy_why = planner.why();
  report.baseline = is_baseline(strategy);
  if (index_.format == "hdf5" && options_.io != IoMode::direct) report.hints = mpio_hints(options_.hints);
  report.notes = load_notes(index_, *layout_, options_);
  report.ranks = static_cast<std::uint64_t>(session_.ranks());
  report.tensors = index_.tensors.size();
  for (const TensorMeta& tensor : index_.tensors) {
    if (tensor.storage != StorageKind::fill)
      report.selected_bytes += tensor.filtered() ? tensor.stored_bytes : tensor.bytes();
  }
  report.staging_budget = options_.staging;
  return report;
}

Loaded LoadJob::run(const std::string& strategy, VerifyMode verify, Watchdog& watchdog) const {
  Control& control = session_.control();
  host::reset_peak_resident();
  watchdog.at("open", nullptr);
  control.barrier();
  Loaded out;
  RankStats stats;
  out.origin_s = now_s();
  out.timeline.add(Phase::open, kNoTensor, index_begin_s_, index_begin_s_ + index_s_, 0);
  double since = out.origin_s;
  auto lap = [&](Phase which) {
    const double now = now_s();
    out.timeline.add(which, kNoTensor, since, now, 0);
    return now - std::exchange(since, now);
  };

  // The plan comes before any file is opened: one that does not fit is refused before any I/O.
  const PlanParams params = params_for(strategy);
  watchdog.at("plan", nullptr);
  agree_on_inputs(control, inputs_text(index_, *layout_, params));
  std::unique_ptr<Planner> planner;
  LoaderOptions loader_options;
  RankFigures figures;
  loader_options.verify = verify;
  together(control, [&] {
    planner = Planner::make(index_, *layout_, params);  // says what a budget lacks
    loader_options.staging = checked_split(params, converts_any(index_, params.cast));
    out.plan = planner->plan(static_cast<std::uint64_t>(session_.rank()));
    figures = rank_figures(index_, params, out.plan);
  });
  stats.leaving_bytes = figures.leaving_bytes;
  const StagingSplit& split = loader_options.staging;
  check_host_memory(session_,
                    split.slots * split.slot_bytes + (hardware_->gpu() ? 0 : figures.peak_bytes() + split.scratch));
  stats.plan_s = lap(Phase::plan);

  watchdog.at("open", nullptr);
  std::unique_ptr<Storage> storage = open_storage(session_, index_, options_.io, options_.hints);
  stats.open_s = index_s_ + lap(Phase::open);

  out.device = hardware_->device();
  std::unique_ptr<Fabric> fabric = hardware_->fabric();
  stats.plan_s += lap(Phase::plan);
  Loader loader(index_, {*storage, *out.device, *fabric, control, watchdog}, loader_options);
  out.result = loader.run(out.plan, stats, out.timeline);
  stats.total_s = index_s_ + now_s() - out.origin_s;
  watchdog.at("report", nullptr);

  StorageCounters counters = storage->counters();
  stats.read_bytes = counters.bytes;
  stats.read_requests = counters.requests;
  stats.read_s -= counters.open_s;
  stats.open_s += counters.open_s;
  stats.datasets_opened = datasets_opened(*storage);
  stats.rss_peak = host::peak_resident_bytes();
  // What was staged is freed before.
  if (!options_.stage_out.empty() && !out.device->host_accessible())
    stats.staging_peak = std::max(stats.staging_peak, stage_out_piece());
  stats.node = static_cast<std::uint64_t>(session_.node());

  out.report = describe(strategy, *planner);
  out.report.io = storage->description();
  if (out.report.io.find("OMPIO") != std::string::npos) {
    out.report.notes.push_back(
        "WARNING: OMPIO loses read errors (zeros in place of data); unset OMPI_MCA_io to read through ROMIO");
  }
  out.report.notes.insert(out.report.notes.end(), out.result.notes.begin(), out.result.notes.end());
  out.report.device = out.device->description();
  if (!hardware_->why().empty()) out.report.device += fmt::format(" ({})", hardware_->why());
  out.report.fabric = fabric->description();
  out.report.slots = loader_options.staging.slots;
  out.report.slot_bytes = loader_options.staging.slot_bytes;
  out.report.rounds = out.plan.rounds.size();
  out.report.tensors_verified = out.result.verified;
  out.report.tensors_unverified = out.result.unverified;
  for (const Mismatch& mismatch : out.result.wrong) {
    out.report.wrong.push_back({index_.tensors[mismatch.tensor].name, mismatch.expected, mismatch.found});
  }
  JobRanks ranks = gather_ranks(session_, stats);
  out.report.hosts = ranks.hosts;
  out.report.ranks_per_node = ranks.per_node;
  out.report.per_rank = std::move(ranks.stats);
  PlanSummary moved;
  moved.rounds = out.plan.rounds.size();
  moved.rounds_at_once = out.plan.rounds_at_once;
  for (std::size_t rank = 0; rank < out.report.per_rank.size(); ++rank) {
    moved.read_bytes.add(out.report.per_rank[rank].read_bytes, rank);
    moved.received_bytes.add(out.report.per_rank[rank].fill_bytes, rank);
    moved.leaving_bytes.add(out.report.per_rank[rank].leaving_bytes, rank);
  }
  out.report.bound_s = time_bound(moved, costs_);
  watchdog.waiting("end (closing the files on all ranks)", nullptr);
  return out;
}

void LoadJob::stage_out(const Loaded& loaded, const std::string& folder) const {
  std::string path = staged_path(folder, static_cast<std::uint64_t>(session_.rank()));
  bool written = false;
  // Files of two loads must not pass for one set, unless they are of the same file as it was, in the same layout.
  const std::string inputs = to_bytes(index_) + layout_->name() + '\n' + layout_->mesh().text() + '\n' + rules_ +
                             (options_.cast ? std::string(dtype_name(*options_.cast)) : "");
  const std::string set = fmt::format("{:016x}", crc64_part(inputs.data(), inputs.size()));
  try {
    together(session_.control(), [&] { refuse_other_shards(folder, session_.ranks()); });
    together(session_.control(), [&] {
      write_shards(loaded, folder, path, set);
      written = true;
    });
  } catch (const Error&) {
    // A set with a rank missing must not look like a whole one.
    if (written) unlink(path.c_str());
    throw;
  }
}

void LoadJob::write_shards(const Loaded& loaded, const std::string& folder, const std::string& path,
                           const std::string& set) const {
  // Node-local folders are often not there yet; only the last part of the path is made, so that a missing
  // mount shows.
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    fail(Status::file, "--stage-out {}: {}", printable(folder), errno_text(errno));
  }
  using Json = nlohmann::ordered_json;
  Json places = Json::object();
  std::vector<ShardTensor> tensors;
  for (std::size_t t = 0; t < index_.tensors.size(); ++t) {
    const TensorMeta& tensor = index_.tensors[t];
    const ShardPlace& shard = loaded.plan.shards[t];
    tensors.push_back({tensor.name, loaded.plan.dtypes[t], Shape(shard.lengths()),
                       loaded.result.shards->data() + shard.offset});
    Json place;
    place["global_shape"] =
        std::vector<std::uint64_t>(tensor.shape.lengths().begin(), tensor.shape.lengths().end());
    if (shard.blocks.empty() && !shard.flat) {
      place["offset"] = std::vector<std::uint64_t>(shard.box.start.begin(), shard.box.start.end());
    } else {
      // Dense boxes of the tensor, and the (flattened) element of the part that each begins at.
      place["parts"] = Json::array();
      for_each_dense_part(shard.box, shard.blocks, [&](const Box& box, std::uint64_t element) {
        place["parts"].push_back({{"offset", std::vector<std::uint64_t>(box.start.begin(), box.start.end())},
                                  {"shape", std::vector<std::uint64_t>(box.extent.begin(), box.extent.end())},
                                  {"element", element}});
      });
    }
    if (!tensor.aliases.empty()) place["aliases"] = tensor.aliases;
    places[tensor.name] = std::move(place);
  }
  auto rank = static_cast<std::uint64_t>(session_.rank());
  Dims coordinate = layout_->mesh().coordinate(rank);
  std::map<std::string, std::string> metadata{
      {"format", "pt"},
      {"slabload_version", kVersion},
      {"slabload_checkpoint", options_.checkpoint},
      {kStagedSet, set},
      {kStagedLayout, layout_->name()},
      {kStagedMesh, layout_->mesh().text()},
      {kStagedMetadata, Json(index_.metadata).dump(-1, ' ', false, Json::error_handler_t::replace)},
      {"slabload_coordinate", Json(std::vector<std::uint64_t>(coordinate.begin(), coordinate.end())).dump()},
      {kStagedRank, fmt::format("{}", rank)},
      {kStagedRanks, fmt::format("{}", session_.ranks())},
      {kStagedTensors, places.dump(-1, ' ', false, Json::error_handler_t::replace)}};
  if (!rules_.empty()) metadata[kStagedRules] = rules_;
  write_shard_file(path, tensors, metadata, true, host_view(loaded), stage_out_piece());
}

// How much of a shard is in pinned memory at a time.
std::uint64_t LoadJob::stage_out_piece() const {
  return std::min(kShardPiece, options_.staging);
}

// The shards in host memory, piece by piece.
ShardView LoadJob::host_view(const Loaded& loaded) const {
  if (loaded.device->host_accessible()) return {};
  std::shared_ptr<Device> device = loaded.device;
  std::shared_ptr<DeviceMemory> buffer =
      device->allocate_staging(stage_out_piece(), "the way of the shards to a file");
  return [this, device, buffer](const void* data, std::uint64_t bytes) {
    device->copy_out(static_cast<const std::byte*>(data), buffer->data(), bytes);
    Mark done = device->mark();
    wait_until(session_.control(), [&] { return device->passed(done).has_value(); });
    return static_cast<const void*>(buffer->data());
  };
}

void LoadJob::write_timeline(const Loaded& loaded, const std::string& path) const {
  Control& control = session_.control();
  RankTimeline mine{control.host(), loaded.origin_s, loaded.timeline};
  mine.timeline.coarsen(spans_to_send(static_cast<std::size_t>(control.ranks())));
  std::vector<std::string> all = control.gather(to_bytes(mine));
  together(control, [&] {
    if (!session_.is_root()) return;
    std::vector<RankTimeline> ranks;
    for (const std::string& bytes : all) ranks.push_back(rank_timeline_from_bytes(bytes));
    write_pieces(path, [&](const WritePiece& write) { slabload::write_timeline(ranks, index_, write); });
  });
}

}  // namespace slabload
