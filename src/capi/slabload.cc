// The C interface: handles, and a fence that turns every exception into a status and a message.
#include "slabload/slabload.h"

#include <map>
#include <string_view>
#include <unordered_map>

#include "app/load_job.h"
#include "base/version.h"
#include "capi/fence.h"
#include "report/load_report.h"

using namespace slabload;
using namespace slabload::capi;

static_assert(SLABLOAD_MAX_NDIM == kMaxNdim);
static_assert(SLABLOAD_WRONG_DATA == static_cast<int>(Status::wrong_data));
static_assert(SLABLOAD_USAGE == static_cast<int>(Status::usage));
static_assert(SLABLOAD_FILE == static_cast<int>(Status::file));
static_assert(SLABLOAD_PEER == static_cast<int>(Status::peer));
static_assert(SLABLOAD_INTERNAL == static_cast<int>(Status::internal));

namespace {

// Finds the number of a tensor by name or alias; the strings are the index's, which must stay where it is.
class Names {
 public:
  explicit Names(const TensorIndex& index) {
    for (std::uint64_t t = 0; t < index.tensors.size(); ++t) {
      numbers_.emplace(index.tensors[t].name, t);
    }
    // A name wins over an alias that is spelled the same.
    for (std::uint64_t t = 0; t < index.tensors.size(); ++t) {
      for (const std::string& alias : index.tensors[t].aliases) numbers_.emplace(alias, t);
    }
  }
  std::uint64_t find(const TensorIndex& index, const char* name) const {
    auto found = numbers_.find(name);
    if (found == numbers_.end())
      fail(Status::usage, "{}: no tensor is called {}", index.path, printable(name));
    return found->second;
  }

 private:
  std::unordered_map<std::string_view, std::uint64_t> numbers_;
};

}  // namespace

struct slabload_index {
  explicit slabload_index(TensorIndex read) : index(std::move(read)), names(index) {}
  const TensorIndex index;
  const Names names;
};

struct slabload_layout {
  Layout layout;
};

static slabload_box c_box(const Box& box) {
  slabload_box out = {};
  out.ndim = static_cast<std::uint32_t>(box.ndim());
  std::copy(box.start.begin(), box.start.end(), out.start);
  std::copy(box.extent.begin(), box.extent.end(), out.extent);
  return out;
}

struct slabload_shards {
  slabload_shards(const TensorIndex& loaded_index, Loaded run, const Mesh& mesh, std::uint64_t rank_of_this)
      : index(loaded_index),
        names(index),
        loaded(std::move(run)),
        mesh_text(mesh.text()),
        rank(rank_of_this) {
    // What a load is made of can outweigh what it leaves.
    loaded.plan.rounds = {};
    loaded.plan.groups = {};
    if (rank == 0) report = to_json(loaded.report);
  }
  const TensorIndex index;
  const Names names;
  Loaded loaded;
  const std::string mesh_text;
  const std::uint64_t rank;
  std::string report;
};

namespace {

template <typename List>
const auto& at(const List& list, std::uint64_t number, const char* what) {
  if (number >= list.size())
    fail(Status::usage, "there is no {} {}: there are {}, numbered from 0", what, number, list.size());
  return list[number];
}

std::unique_ptr<slabload_shards> load(Session& session, const RunOptions& options) {
  auto watchdog = session.watch(options.timeout_s, "");
  LoadJob job(session, options);
  Loaded loaded = job.run(job.chosen_strategy(), options.verify, *watchdog);
  bool right = loaded.result.wrong.empty();
  if (right && !options.stage_out.empty()) {
    watchdog->at("stage out", nullptr);
    job.stage_out(loaded, options.stage_out);
  }
  watchdog.reset();
  std::unique_ptr<slabload_shards> shards;
  together(session.control(), [&] {
    if (session.is_root() && !options.report.empty()) write_text(options.report, to_json(loaded.report));
    if (!right) return;
    shards = std::make_unique<slabload_shards>(job.index(), std::move(loaded), job.layout().mesh(),
                                               static_cast<std::uint64_t>(session.rank()));
  });
  if (!right) fail_agreed(Status::wrong_data, wrong_data_text(loaded.report));
  return shards;
}

}  // namespace

const char* slabload_version(void) {
  return kVersion;
}

// ---- errors ------------------------------------------------------------------------------------

slabload_status slabload_error_status(const slabload_error* error) {
  return error == nullptr ? SLABLOAD_OK : static_cast<slabload_status>(error->error.status());
}

const char* slabload_error_message(const slabload_error* error) {
  return error == nullptr ? "" : error->error.what();
}

int slabload_error_agreed(const slabload_error* error) {
  return error != nullptr && error->error.agreed();
}

void slabload_error_free(slabload_error* error) {
  delete error;
}

// ---- index -------------------------------------------------------------------------------------

slabload_status slabload_index_open(const char* path, slabload_index** index, slabload_error** error) {
  if (index != nullptr) *index = nullptr;
  return fenced(error, [&] {
    need(path, "path");
    need(index, "index");
    *index = new slabload_index(read_index(path));
  });
}

void slabload_index_free(slabload_index* index) {
  delete index;
}

slabload_status slabload_index_get_info(const slabload_index* index, slabload_index_info* info,
                                        slabload_error** error) {
  return fenced(error, [&] {
    need(index, "index");
    need(info, "info");
    const TensorIndex& held = index->index;
    *info = {held.path.c_str(), held.format.c_str(), held.tensors.size(), held.skipped.size(),
             held.total_bytes()};
  });
}

slabload_status slabload_index_get_tensor(const slabload_index* index, uint64_t number,
                                          slabload_tensor* tensor, slabload_error** error) {
  return fenced(error, [&] {
    need(index, "index");
    need(tensor, "tensor");
    const TensorMeta& meta = at(index->index.tensors, number, "tensor");
    const CheckpointFile& file = at(index->index.files, meta.file, "file");
    bool contiguous = meta.storage == StorageKind::contiguous;
    *tensor = {};
    tensor->name = meta.name.c_str();
    tensor->dtype = dtype_name(meta.dtype).data();
    tensor->element_bytes = dtype_size(meta.dtype);
    tensor->ndim = static_cast<std::uint32_t>(meta.shape.ndim());
    tensor->shape = meta.shape.lengths().data();
    tensor->bytes = meta.bytes();
    tensor->storage = storage_name(meta.storage).data();
    tensor->file = file.path.c_str();
    tensor->is_contiguous = contiguous;
    tensor->offset = contiguous ? meta.offset : 0;
    tensor->is_big_endian = meta.big_endian;
    tensor->has_crc64 = meta.crc64.has_value();
    tensor->crc64 = meta.crc64.value_or(0);
    tensor->aliases = meta.aliases.size();
  });
}

slabload_status slabload_index_get_alias(const slabload_index* index, uint64_t number, uint64_t alias,
                                         const char** name, slabload_error** error) {
  return fenced(error, [&] {
    need(index, "index");
    need(name, "name");
    *name = at(at(index->index.tensors, number, "tensor").aliases, alias, "alias").c_str();
  });
}

slabload_status slabload_index_find(const slabload_index* index, const char* name, uint64_t* number,
                                    slabload_error** error) {
  return fenced(error, [&] {
    need(index, "index");
    need(name, "name");
    need(number, "number");
    *number = index->names.find(index->index, name);
  });
}

slabload_status slabload_index_get_skipped(const slabload_index* index, uint64_t number, const char** name,
                                           const char** reason, slabload_error** error) {
  return fenced(error, [&] {
    need(index, "index");
    need(name, "name");
    need(reason, "reason");
    const SkippedObject& skipped = at(index->index.skipped, number, "skipped object");
    *name = skipped.name.c_str();
    *reason = skipped.reason.c_str();
  });
}

// ---- layout ------------------------------------------------------------------------------------

namespace {

std::unique_ptr<slabload_layout> layout_of(const std::string& layout, const std::string& rules,
                                           const char* mesh, std::uint64_t ranks) {
  if (ranks == 0 || ranks > INT32_MAX)
    fail(Status::usage, "{} is no number of ranks: it is 1 to {}", ranks, INT32_MAX);
  RunOptions options;
  options.layout = layout;
  if (mesh != nullptr) options.mesh = mesh;
  if (mesh != nullptr && options.mesh.empty())
    fail(Status::usage, "the mesh is empty; give axes, or NULL for dp_shard=<ranks>");
  return std::make_unique<slabload_layout>(slabload_layout{make_layout(options, ranks, rules)});
}

}  // namespace

slabload_status slabload_layout_preset(const char* preset, const char* mesh, uint64_t ranks,
                                       slabload_layout** layout, slabload_error** error) {
  if (layout != nullptr) *layout = nullptr;
  return fenced(error, [&] {
    need(preset, "preset");
    need(layout, "layout");
    if (is_rules_file(preset)) {
      fail(Status::usage, "{} is a rules file, no preset; give its text to slabload_layout_rules",
           printable(preset));
    }
    *layout = layout_of(preset, "", mesh, ranks).release();
  });
}

slabload_status slabload_layout_rules(const char* json, const char* mesh, uint64_t ranks,
                                      slabload_layout** layout, slabload_error** error) {
  if (layout != nullptr) *layout = nullptr;
  return fenced(error, [&] {
    need(json, "json");
    need(layout, "layout");
    *layout = layout_of("rules.json", json, mesh, ranks).release();
  });
}

void slabload_layout_free(slabload_layout* layout) {
  delete layout;
}

slabload_status slabload_layout_get_box(const slabload_layout* layout, const slabload_index* index,
                                        uint64_t number, uint64_t rank, slabload_box* box,
                                        slabload_error** error) {
  return fenced(error, [&] {
    need(layout, "layout");
    need(index, "index");
    need(box, "box");
    const TensorMeta& tensor = at(index->index.tensors, number, "tensor");
    const Mesh& mesh = layout->layout.mesh();
    if (rank >= mesh.ranks())
      fail(Status::usage, "there is no rank {}: the mesh {} has {}", rank, mesh.text(), mesh.ranks());
    const std::vector<TensorLayout> resolved = layout->layout.resolve(index->index);
    const Shard shard = local_shard(tensor.shape, mesh, resolved[number], mesh.coordinate(rank));
    if (!shard.blocks.empty()) {
      fail(Status::usage, "tensor {}: the part of rank {} is {} boxes, not one", printable(tensor.name), rank,
           shard.blocks.size());
    }
    *box = c_box(shard.box);
  });
}

// ---- load --------------------------------------------------------------------------------------

slabload_status slabload_prepare(slabload_error** error) {
  return fenced(error, [] { Session::prepare(); });
}

slabload_status slabload_load(int communicator, const char* checkpoint, const slabload_option* options,
                              uint64_t option_count, slabload_shards** shards, slabload_error** error) {
  if (shards != nullptr) *shards = nullptr;
  return fenced(error, [&] {
    Session session(Session::comm_of(communicator));
    RunOptions parsed;
    // From here on a wrong argument of one rank is every rank's error: the others must not wait for it.
    together(session.control(), [&] {
      need(checkpoint, "checkpoint");
      need(shards, "shards");
      parsed = parse_options("load", options, option_count);
      parsed.checkpoint = checkpoint;
    });
    *shards = load(session, parsed).release();
  });
}

void slabload_shards_free(slabload_shards* shards) {
  delete shards;
}

slabload_status slabload_shards_get_info(const slabload_shards* shards, slabload_shards_info* info,
                                         slabload_error** error) {
  return fenced(error, [&] {
    need(shards, "shards");
    need(info, "info");
    const LoadReport& report = shards->loaded.report;
    *info = {};
    info->tensors = shards->index.tensors.size();
    info->rank = shards->rank;
    info->ranks = report.ranks;
    info->mesh = shards->mesh_text.c_str();
    info->layout = report.layout.c_str();
    info->strategy = report.strategy.c_str();
    info->device = shards->loaded.device->host_accessible() ? "host" : "cuda";
    info->bytes = shards->loaded.plan.shard_bytes;
    info->verified = report.tensors_verified;
    info->unverified = report.tensors_unverified;
    info->report = shards->rank == 0 ? shards->report.c_str() : nullptr;
  });
}

slabload_status slabload_shards_get(const slabload_shards* shards, uint64_t number, slabload_shard* shard,
                                    slabload_error** error) {
  return fenced(error, [&] {
    need(shards, "shards");
    need(shard, "shard");
    const TensorMeta& tensor = at(shards->index.tensors, number, "loaded tensor");
    const ShardPlace& place = shards->loaded.plan.shards[number];
    DType dtype = shards->loaded.plan.dtypes[number];
    *shard = {};
    shard->name = tensor.name.c_str();
    shard->dtype = dtype_name(dtype).data();
    shard->element_bytes = dtype_size(dtype);
    shard->ndim = static_cast<std::uint32_t>(tensor.shape.ndim());
    shard->global_shape = tensor.shape.lengths().data();
    shard->shape = place.blocks.empty() ? place.box.extent.data() : nullptr;
    shard->offset = place.blocks.empty() ? place.box.start.data() : nullptr;
    shard->data = place.bytes == 0 ? nullptr : shards->loaded.result.shards->data() + place.offset;
    shard->bytes = place.bytes;
    for_each_dense_part(place.box, place.blocks, [&](const Box&, std::uint64_t) { ++shard->parts; });
  });
}

slabload_status slabload_shards_get_part(const slabload_shards* shards, uint64_t number, uint64_t part,
                                         slabload_box* box, uint64_t* element, slabload_error** error) {
  return fenced(error, [&] {
    need(shards, "shards");
    need(box, "box");
    need(element, "element");
    at(shards->index.tensors, number, "loaded tensor");
    const ShardPlace& place = shards->loaded.plan.shards[number];
    std::uint64_t count = 0;
    for_each_dense_part(place.box, place.blocks, [&](const Box& one, std::uint64_t from) {
      if (count++ != part) return;
      *box = c_box(one);
      *element = from;
    });
    if (part >= count) fail(Status::usage, "there is no part {}: the shard has {}", part, count);
  });
}

slabload_status slabload_shards_find(const slabload_shards* shards, const char* name, uint64_t* number,
                                     slabload_error** error) {
  return fenced(error, [&] {
    need(shards, "shards");
    need(name, "name");
    need(number, "number");
    *number = shards->names.find(shards->index, name);
  });
}
