#include "cli/verb_table.h"

#include <algorithm>
#include <numeric>

namespace slabload {

const std::vector<VerbSpec>& verb_table() {
  static const std::vector<VerbSpec> table{
      {"generate", kGenerate, true, true, "--table FILE.tsv --out CKPT [--seed N] [--scale K]", nullptr,
       "Writes a synthetic HDF5 checkpoint with the tensors of a table, in parallel, with checksums.\n"
       "Every value follows from seed, tensor name and index.",
       "mpirun -n 4 slabload generate --table qwen2.5-0.5b.tsv --out model.h5 --seed 7"},
      {"import", kImport, true, true, "SRC --out CKPT", "SRC",
       "Copies safetensors (a file, a folder of shards or an index.json) into one HDF5 checkpoint,\n"
       "bit for bit, in parallel, with checksums.",
       "mpirun -n 4 slabload import model.safetensors.index.json --out model.h5"},
      {"export", kExport, true, true, "CKPT --out DIR [--max-file-bytes SIZE]", "CKPT",
       "Copies a checkpoint into safetensors files with an index, bit for bit, in parallel. The checksums\n"
       "that the checkpoint has are checked on the way.",
       "mpirun -n 4 slabload export model.h5 --out model --max-file-bytes 5GB"},
      {"inspect", kInspect, true, false, "CKPT [--json] [--tensors]", "CKPT",
       "Prints what a checkpoint holds: tensors, dtypes, shapes, bytes, storage, offsets, checksums.\n"
       "Reads no tensor data.",
       "slabload inspect model.h5 --tensors"},
      {"plan", kPlan, true, false, "(CKPT | --table FILE.tsv) [--mesh AXES] [--layout L] [--ranks N]", "CKPT",
       "Plans a load for any number of ranks, proves the plan right and prints what each rank would\n"
       "read, receive and hold. Needs no mpirun and reads no tensor data.",
       "slabload plan --table qwen2.5-0.5b.tsv --mesh dp_replicate=2,dp_shard=32 --layout hsdp"},
      {"load", kLoad, true, true, "CKPT [--mesh AXES] [--layout L]", "CKPT",
       "Loads a checkpoint: every rank reads its part, receives the rest from the others, verifies\n"
       "and reports.",
       "mpirun -n 4 slabload load model.h5 --mesh dp_replicate=2,dp_shard=2 --layout hsdp --report "
       "load.json"},
      {"verify", kVerify, true, true, "CKPT [--against OTHER]", "CKPT",
       "Checks every tensor's checksum in parallel, or compares two checkpoints in any format.",
       "mpirun -n 4 slabload verify model.h5 --against model.safetensors.index.json"},
      {"bench", kBench, true, true, "CKPT [--strategies LIST] [--repeat N]", "CKPT",
       "Repeats the load by several strategies and compares them with each other and with the raw\n"
       "reading speed.",
       "mpirun -n 4 slabload bench model.h5 --strategies slab,rank0-broadcast --repeat 5 --csv runs.csv"},
      {"help", kHelp, true, false, "[VERB]", "VERB", "Prints the usage of a verb.", "slabload help load"},
      {"version", kVersionVerb, true, false, "", nullptr,
       "Prints the version of the program and of its libraries.", "slabload version"},
      {"save", kSave, false, true, "", nullptr, "", ""},
  };
  return table;
}

const VerbSpec* find_verb(const std::string& name) {
  for (const VerbSpec& verb : verb_table()) {
    if (name == verb.name) return &verb;
  }
  return nullptr;
}

const std::vector<LaterOption>& later_options() {
  static const std::vector<LaterOption> table{
      {"timeline", kPlan | kBench}, {"op", kBench}, {"reorder", kBench}, {"sweep", kBench}, {"plot", kBench},
      {"compare", kBench}};
  return table;
}

std::string closest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 2;  // farther than this is no spelling mistake
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        std::size_t changed = diagonal + (word[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace slabload
