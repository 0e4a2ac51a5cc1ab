#include "app/option_table.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "layout/mesh.h"
#include "layout/name_pattern.h"
#include "plan/staging.h"

namespace slabload {
namespace {

using Values = std::vector<std::string>;

constexpr unsigned kAll = kGenerate | kImport | kInspect | kPlan | kLoad | kVerify | kBench | kSave | kExport;

std::uint64_t whole_number(const std::string& text, const std::string& what, std::uint64_t least,
                           std::uint64_t most) {
  std::uint64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    fail(Status::usage, "{}: '{}' is not a whole number from {} to {}", what, printable(text), least, most);
  }
  return value;
}

void check_strategy(const std::string& text, const std::string& what) {
  for (const char* known : {"auto", "slab", "linear", "rank0-broadcast", "rank0-full", "every-rank"}) {
    if (text == known) return;
  }
  fail(Status::usage, "{}: '{}' is not auto, slab, linear, rank0-broadcast, rank0-full or every-rank", what,
       printable(text));
}

void set_strategies(RunOptions& options, const Values& values, const std::string& what) {
  options.strategies.clear();
  std::string rest = values.front();
  for (;;) {
    std::size_t comma = rest.find(',');
    std::string name = rest.substr(0, comma);
    check_strategy(name, what);
    if (std::find(options.strategies.begin(), options.strategies.end(), name) != options.strategies.end()) {
      fail(Status::usage, "{}: '{}' is given twice", what, name);
    }
    options.strategies.push_back(name);
    if (comma == std::string::npos) break;
    rest.erase(0, comma + 1);
  }
}

constexpr std::string_view kPresets[] = {"fsdp2", "hsdp", "tp", "fsdp2+tp", "replicate", "fsdp1", "zero3"};

void set_layout(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  const bool preset = std::find(std::begin(kPresets), std::end(kPresets), text) != std::end(kPresets);
  if (!preset && !text.ends_with(".json")) {
    fail(Status::usage,
         "{}: '{}' is not fsdp2, hsdp, tp, fsdp2+tp, replicate, fsdp1, zero3 or a rules file ending in .json", what,
         printable(text));
  }
  options.layout = text;
}

void set_device(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  if (text != "auto" && text != "host" && text != "cuda")
    fail(Status::usage, "{}: '{}' is not auto, host or cuda", what, printable(text));
  options.device = text;
}

void set_fabric(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  if (text != "auto" && text != "mpi" && text != "nccl")
    fail(Status::usage, "{}: '{}' is not auto, mpi or nccl", what, printable(text));
  options.fabric = text;
}

void set_slot_bytes(RunOptions& options, const Values& values, const std::string& what) {
  options.slot_bytes = parse_bytes(values.front(), what);
  if (options.slot_bytes < kLeastSlot || options.slot_bytes >= kItemLimit ||
      options.slot_bytes % kLeastSlot != 0) {
    fail(Status::usage, "{}: '{}' is not a multiple of 4KiB below 1GiB", what, printable(values.front()));
  }
}

void set_io(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  if (text == "independent")
    options.io = IoMode::independent;
  else if (text == "collective")
    options.io = IoMode::collective;
  else if (text == "direct")
    options.io = IoMode::direct;
  else
    fail(Status::usage, "{}: '{}' is not independent, collective or direct", what, printable(text));
}

void set_cast(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  if (text == "bf16")
    options.cast = DType::bf16;
  else if (text == "fp16")
    options.cast = DType::f16;
  else if (text == "fp32")
    options.cast = DType::f32;
  else
    fail(Status::usage, "{}: '{}' is not bf16, fp16 or fp32", what, printable(text));
}

void set_verify(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  if (text == "none")
    options.verify = VerifyMode::none;
  else if (text == "checksum")
    options.verify = VerifyMode::checksum;
  else if (text == "shards")
    options.verify = VerifyMode::shards;
  else
    fail(Status::usage, "{}: '{}' is not checksum, shards or none", what, printable(text));
}

void set_cache(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  if (text != "warm" && text != "cold")
    fail(Status::usage, "{}: '{}' is not warm or cold", what, printable(text));
  options.cold = text == "cold";
}

void set_hints(RunOptions& options, const Values& values, const std::string& what) {
  for (const std::string& hint : values) {
    std::size_t equals = hint.find('=');
    if (equals == 0 || equals == std::string::npos) {
      fail(Status::usage, "{}: '{}' is not KEY=VALUE", what, printable(hint));
    }
  }
  options.hints = values;
}

void set_staging(RunOptions& options, const Values& values, const std::string& what) {
  options.staging = parse_bytes(values.front(), what);
  if (options.staging == 0)
    fail(Status::usage, "{}: the staging budget is 0; give a size such as 256MiB", what);
}

void set_min_read(RunOptions& options, const Values& values, const std::string& what) {
  options.min_read = parse_bytes(values.front(), what);
  if (options.min_read > kGiB) {
    fail(Status::usage, "{}: '{}' is above 1GiB, the largest single read", what, printable(values.front()));
  }
}

void set_timeout(RunOptions& options, const Values& values, const std::string& what) {
  options.timeout_s = parse_seconds(values.front(), what);
  if (!(options.timeout_s > 0)) fail(Status::usage, "{}: a timeout is above 0 seconds", what);
}

void set_mesh(RunOptions& options, const Values& values, const std::string& what) {
  try {
    options.mesh = Mesh::parse(values.front()).text();
  } catch (const Error& error) {
    if (what == "--mesh") throw;
    fail(error.status(), "{}: {}", what, error.message());
  }
}

// A string that is taken as it is.
template <std::string RunOptions::*Member>
void set_text(RunOptions& options, const Values& values, const std::string& what) {
  if (values.front().empty()) fail(Status::usage, "{}: the value is empty", what);
  options.*Member = values.front();
}

template <std::vector<std::string> Selection::*Member>
void set_globs(RunOptions& options, const Values& values, const std::string& what) {
  for (const std::string& glob : values) check_glob(glob, what);
  options.selection.*Member = values;
}

template <std::uint64_t RunOptions::*Member, std::uint64_t Least>
void set_number(RunOptions& options, const Values& values, const std::string& what) {
  options.*Member = whole_number(values.front(), what, Least, UINT64_MAX);
}

template <bool RunOptions::*Member>
void set_flag(RunOptions& options, const Values&, const std::string&) {
  options.*Member = true;
}

void set_cost(RunOptions& options, const Values& values, const std::string& what) {
  const std::string& text = values.front();
  if (text.empty()) fail(Status::usage, "{}: the value is empty", what);
  std::vector<std::string_view> keys;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::string_view key = part.substr(0, part.find('='));
    if (std::find(keys.begin(), keys.end(), key) != keys.end())
      fail(Status::usage, "{}: '{}' is given twice in '{}'", what, printable(key), printable(text));
    keys.push_back(key);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  options.cost = text;
}

// Sizes in the help are written the way the parser takes them.
std::string size_text(std::uint64_t bytes) {
  std::string text = format_binary(bytes);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

std::vector<OptionSpec> make_options() {
  const RunOptions defaults;
  const Arity flag = Arity::flag, once = Arity::once, repeated = Arity::repeated;
  return {
      {"table", kGenerate | kPlan, once, "FILE.tsv",
       "tensors to make or to plan for: name, dtype, shape on a line, tab-separated",
       set_text<&RunOptions::table>},
      {"from", kSave, once, "CKPT", "load this checkpoint, then save what was loaded", set_text<&RunOptions::from>},
      {"stage-in", kSave, once, "DIR",
       "the folder of rank-00017.safetensors that load --stage-out left: node-local and from as many ranks, or shared",
       set_text<&RunOptions::stage_in>},
      {"chunk", kSave, once, "SIZE",
       "store tensors in chunks of whole rows, at most so large (default: contiguous, or 4MiB with --compress)",
       [](RunOptions& options, const Values& values, const std::string& what) {
         options.chunk = parse_bytes(values.front(), what);
         if (options.chunk < 4 * kKiB || options.chunk >= kGiB)
           fail(Status::usage, "{}: '{}' is not from 4KiB to below 1GiB", what, printable(values.front()));
       }},
      {"compress", kSave, once, "NAME",
       "gzip or none; compressed chunks are written by all ranks together and read again before the rename "
       "(default: none)",
       [](RunOptions& options, const Values& values, const std::string& what) {
         if (values.front() != "gzip" && values.front() != "none")
           fail(Status::usage, "{}: '{}' is not gzip or none", what, printable(values.front()));
         options.compress = values.front();
       }},
      {"out", kGenerate | kImport | kSave, once, "CKPT", "the HDF5 file to write", set_text<&RunOptions::out>},
      {"out", kExport, once, "DIR", "the folder to write", set_text<&RunOptions::out>},
      {"max-file-bytes", kExport, once, "SIZE",
       "no file is larger, unless it holds a single tensor (default: 5GB)",
       [](RunOptions& options, const Values& values, const std::string& what) {
         options.max_file_bytes = parse_bytes(values.front(), what);
         if (options.max_file_bytes == 0) fail(Status::usage, "{}: a file has at least 1 byte", what);
       }},
      {"seed", kGenerate, once, "N", fmt::format("seed of the values (default: {})", defaults.seed),
       set_number<&RunOptions::seed, 0>},
      {"scale", kGenerate, once, "K",
       fmt::format("divides every dimension above K by K, rounded up (default: {})", defaults.scale),
       set_number<&RunOptions::scale, 1>},
      {"force", kGenerate | kImport | kSave, flag, nullptr, "replace an existing target",
       set_flag<&RunOptions::force>},
      {"force", kExport, flag, nullptr, "replace an existing folder that holds nothing but an earlier export",
       set_flag<&RunOptions::force>},
      {"against", kVerify, once, "OTHER",
       "compare with this checkpoint, in any format, instead of with the stored checksums",
       set_text<&RunOptions::against>},
      {"tensors", kInspect, flag, nullptr, "list every tensor", set_flag<&RunOptions::tensors>},

      {"mesh", kCommon, once, "AXES",
       "axes and their sizes, outermost first, such as dp_replicate=2,dp_shard=4 (default: dp_shard=<ranks>)",
       set_mesh},
      {"layout", kCommon, once, "NAME|FILE.json",
       fmt::format("fsdp2, hsdp, tp, fsdp2+tp, replicate, fsdp1, zero3 or a rules file (default: {})",
                   defaults.layout),
       set_layout},
      {"ranks", kPlan, once, "N",
       "ranks to plan for (default: the product of the mesh's axes, or 1 without a mesh)",
       [](RunOptions& options, const Values& values, const std::string& what) {
         options.ranks = whole_number(values.front(), what, 1, INT32_MAX);
       }},
      {"strategy", kCommon, once, "NAME",
       fmt::format("auto, slab, linear, or a baseline: rank0-broadcast, rank0-full, every-rank (default: {})",
                   defaults.strategy),
       [](RunOptions& options, const Values& values, const std::string& what) {
         check_strategy(values.front(), what);
         options.strategy = values.front();
       }},
      {"strategies", kBench, once, "LIST",
       "strategies to compare, separated by commas (default: slab,rank0-broadcast,rank0-full,every-rank)",
       set_strategies},
      {"device", kCommon, once, "NAME",
       fmt::format(
           "auto, host or cuda: where the shards live; auto takes GPUs if every rank has one (default: {})",
           defaults.device),
       set_device},
      {"fabric", kCommon, once, "NAME",
       fmt::format(
           "auto, mpi or nccl: what moves bytes between ranks; mpi for host, nccl for cuda (default: {})",
           defaults.fabric),
       set_fabric},
      {"io", kCommon | kVerify, once, "MODE", "independent, collective or direct (default: independent)",
       set_io},
      {"hint", kCommon | kVerify, repeated, "KEY=VALUE", "an MPI-IO hint; may be repeated", set_hints},
      {"staging", kCommon | kImport | kExport | kVerify, once, "SIZE",
       fmt::format("staging budget of one rank, all slots together (default: {})",
                   size_text(defaults.staging)),
       set_staging},
      {"slots", kCommon, once, "N",
       fmt::format("staging slots, 1 to {}: on a GPU pinned buffers that reads land in (default: 4), on the "
                   "host rounds that may "
                   "be under way at once (default: 2)",
                   kMostSlots),
       [](RunOptions& options, const Values& values, const std::string& what) {
         options.slots = whole_number(values.front(), what, 1, kMostSlots);
       }},
      {"slot-bytes", kCommon, once, "SIZE",
       "size of one slot, part of --staging (default: on a GPU 1/16 of it, 16MiB at most; on the host an "
       "equal share)",
       set_slot_bytes},
      {"min-read", kCommon, once, "SIZE",
       fmt::format("smallest read worth a request, at most 1GiB (default: {})", size_text(defaults.min_read)),
       set_min_read},
      {"align", kCommon, once, "SIZE",
       fmt::format("wide extents are cut at multiples of it in the file, such as the stripe size; 0: anywhere "
                   "(default: {})",
                   size_text(defaults.align)),
       [](RunOptions& options, const Values& values, const std::string& what) {
         options.align = parse_bytes(values.front(), what);
         if (options.align > kGiB) fail(Status::usage, "{}: at most 1GiB, not {}", what, printable(values.front()));
       }},
      {"select", kCommon | kExport | kVerify, repeated, "GLOB",
       "only tensors whose name matches; may be repeated (default: all)",
       set_globs<&Selection::select>},
      {"exclude", kCommon | kExport | kVerify, repeated, "GLOB", "not the tensors whose name matches; may be repeated",
       set_globs<&Selection::exclude>},
      {"expect", kCommon, once, "FILE.tsv",
       "names, dtypes and shapes the model wants; any difference is refused before a byte is read",
       set_text<&RunOptions::expect>},
      {"trust-index", kCommon | kImport | kExport | kInspect | kVerify, flag, nullptr,
       "take names, shapes and places as the file has them, even if its checksum of them differs (another program "
       "changed the file on purpose)",
       set_flag<&RunOptions::trust_index>},
      {"cast", kCommon, once, "DTYPE",
       "bf16, fp16 or fp32: convert floating tensors (default: no conversion)", set_cast},
      {"verify", kCommon, once, "MODE",
       "checksum: at the reader; shards: again on the final shards, or of a save: what was written is read again before the "
       "rename; none (default: checksum)",
       set_verify},
      {"timeout", kCommon | kGenerate | kImport | kExport | kInspect | kVerify, once, "TIME",
       fmt::format("longest silence inside a phase before the job is ended: s, ms, min, h (default: {}s)",
                   defaults.timeout_s),
       set_timeout},
      {"cost", kCommon, once, "RATES",
       "what auto weighs and the time bound is made of: fs=RATE (all ranks), fs_per_rank=RATE, fabric=RATE (into "
       "one rank), copy=RATE, request=TIME, message=TIME, each optional, such as fs=5GB/s,fabric=50GB/s,request=0.5ms",
       set_cost},
      {"report", kCommon, once, "FILE.json", "write the report as JSON as well",
       set_text<&RunOptions::report>},
      {"timeline", kLoad, once, "FILE.json",
       "write when each rank read, copied, filled and verified, as trace events (for Perfetto)",
       set_text<&RunOptions::timeline>},
      {"stage-out", kLoad, once, "DIR", "leave each rank's shards there as rank-00017.safetensors",
       set_text<&RunOptions::stage_out>},
      {"ranks-per-node", kPlan, once, "N",
       "neighbouring ranks that share a node's link (default: 1); load finds the nodes by itself",
       [](RunOptions& options, const Values& values, const std::string& what) {
         options.ranks_per_node = whole_number(values.front(), what, 1, INT32_MAX);
       }},
      {"statistics", kPlan, flag, nullptr, "only the figures: the plan is not validated",
       set_flag<&RunOptions::statistics>},
      {"explain", kPlan, once, "NAME",
       "print the rule that applies to a tensor, the ways it could come, and what every rank holds, reads and receives",
       set_text<&RunOptions::explain>},
      {"svg", kPlan, once, "FILE.svg", "draw who reads what: ranks against file offset, over the selected tensors",
       set_text<&RunOptions::svg>},
      {"full", kPlan, flag, nullptr, "print the figures of every rank", set_flag<&RunOptions::full>},
      {"json", kInspect | kPlan, flag, nullptr, "print JSON", set_flag<&RunOptions::json>},
      {"repeat", kBench, once, "N",
       fmt::format("measured runs of each strategy, at least 1 (default: {})", defaults.repeat),
       set_number<&RunOptions::repeat, 1>},
      {"warmup", kBench, once, "N",
       fmt::format("runs of each strategy before the measured ones (default: {})", defaults.warmup),
       set_number<&RunOptions::warmup, 0>},
      {"cache", kBench, once, "STATE",
       "warm, or cold: the file is evicted from the page cache before each run (default: warm)", set_cache},
      {"json", kBench, once, "FILE", "write every run and the summaries as JSON",
       set_text<&RunOptions::json_file>},
      {"csv", kBench, once, "FILE", "write every run as CSV", set_text<&RunOptions::csv_file>},
      {"plot", kBench, once, "FILE.svg", "draw time by phase and peak memory by rank (gnuplot does it, on rank 0's host)",
       set_text<&RunOptions::plot_file>},
      {"config", kAll, once, "FILE", "read options that are not given here from FILE, NAME = VALUE on a line",
       nullptr},
      {"help", kAll | kHelp | kVersionVerb, flag, nullptr, "print this text", nullptr},
  };
}

}  // namespace

const std::vector<OptionSpec>& option_table() {
  static const std::vector<OptionSpec> table = make_options();
  return table;
}

const OptionSpec* find_option(const std::string& name, unsigned verb) {
  for (const OptionSpec& option : option_table()) {
    if (name == option.name && (option.verbs & verb)) return &option;
  }
  return nullptr;
}

}  // namespace slabload
