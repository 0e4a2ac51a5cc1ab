#include "cli/verb_table.h"

#include "cli/near_names.h"

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
      {"save", kSave, true, true, "(--from CKPT | --stage-in DIR) --out CKPT [--mesh AXES] [--layout L]", nullptr,
       "Writes what the ranks hold as one HDF5 checkpoint, in parallel: every element once, replicas share the\n"
       "work, checksums on the way. What is held comes from a checkpoint (--from: loaded first) or from the\n"
       "shards that load --stage-out left (--stage-in: of any number of ranks and any layout). The target is\n"
       "replaced as a whole or not at all.",
       "mpirun -n 4 slabload save --stage-in /local/shards --out model.h5 --force"},
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
      {"timeline", kPlan | kBench}, {"op", kBench}, {"reorder", kBench}, {"sweep", kBench},
      {"compare", kBench}};
  return table;
}

std::string closest(const std::string& word, const std::vector<std::string>& known) {
  const std::size_t most = word.size() / 3 + 1;  // farther than this is no spelling mistake
  std::string best;
  std::size_t best_distance = most + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate, most);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace slabload
