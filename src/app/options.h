// Everything a user can ask for, already parsed and checked for form. Filled by cli/, by tests and by the C
// interface.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "exec/verify_mode.h"
#include "index/selection.h"
#include "tensor/dtype.h"

namespace slabload {

enum class IoMode { independent, collective, direct };

struct RunOptions {
  std::string verb;
  // Positional and files.
  std::string checkpoint;  // CKPT, or SRC of import
  std::string out;         // generate, import, save, export
  std::string against;     // verify
  std::string table;       // generate, plan
  std::string expect;
  std::string report;  // JSON file
  std::string timeline;
  std::string stage_out;
  // What is loaded, and how.
  std::string mesh;  // empty: dp_shard=<ranks>
  std::string layout = "fsdp2";
  std::string strategy = "auto";
  std::string device = "auto";
  std::string fabric = "auto";
  IoMode io = IoMode::independent;
  std::vector<std::string> hints;  // KEY=VALUE
  std::uint64_t staging = 256 * kMiB;
  std::uint64_t slots = 0;       // 0: the default of the device, see plan/staging.h
  std::uint64_t slot_bytes = 0;  // 0: by the budget
  std::uint64_t min_read = 1 * kMiB;
  std::uint64_t align = 1 * kMiB;  // 0: extents are cut anywhere
  Selection selection;
  bool trust_index = false;  // an index that its checksum contradicts is taken all the same
  std::optional<DType> cast;
  VerifyMode verify = VerifyMode::checksum;
  double timeout_s = 300;
  std::string cost;  // see plan/costs.h
  // generate
  std::uint64_t seed = 0;
  std::uint64_t scale = 1;
  // save
  std::string from;      // a checkpoint to load and save
  std::string stage_in;  // or the folder of staged shards
  std::uint64_t chunk = 0;
  std::string compress = "none";
  // plan
  std::optional<std::uint64_t> ranks;
  std::uint64_t ranks_per_node = 1;
  bool statistics = false;
  std::string svg;
  std::string explain;
  bool full = false;
  // inspect, plan
  bool json = false;
  bool tensors = false;
  // bench
  std::vector<std::string> strategies;  // comma list
  std::uint64_t repeat = 5;
  std::uint64_t warmup = 1;
  bool cold = false;                // --cache cold
  std::string csv_file, json_file, plot_file;  // bench: --csv FILE, --json FILE, --plot FILE.svg
  bool force = false;               // generate, import, export: replace an existing target
  std::uint64_t max_file_bytes = 5'000'000'000;  // export
};

}  // namespace slabload
