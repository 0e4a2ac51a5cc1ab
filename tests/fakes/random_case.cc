#include "fakes/random_case.h"

#include <fmt/format.h>

#include <stdexcept>

namespace slabload::testing {
namespace {

std::vector<std::uint64_t> random_shape(Random& random, std::uint64_t most) {
  std::vector<std::uint64_t> shape(random.of<std::size_t>({0, 1, 1, 2, 2, 2, 2, 3, 3, 4}));
  std::uint64_t elements = 1;
  for (std::uint64_t& length : shape) {
    length = random.one_in(30)
                 ? 0
                 : random.of<std::uint64_t>({1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 24, 31, 53, 64, 97, 251});
    while (elements * length > most) length = (length + 1) / 2;
    elements *= std::max<std::uint64_t>(length, 1);
  }
  return shape;
}

void random_storage(Random& random, TensorMeta& tensor) {
  tensor.storage = random.of({StorageKind::contiguous, StorageKind::contiguous, StorageKind::contiguous,
                              StorageKind::chunked, StorageKind::chunked, StorageKind::chunked_holes,
                              StorageKind::compact, StorageKind::fill});
  // A 0-d dataset has no chunks.
  if (tensor.chunked() && tensor.shape.ndim() == 0) tensor.storage = StorageKind::contiguous;
  if (!tensor.chunked()) return;
  for (std::uint64_t length : tensor.shape.lengths())
    tensor.chunk.push_back(1 + random.below(std::max<std::uint64_t>(length, 1)));
  if (random.one_in(2)) tensor.filters = {"shuffle", "deflate(6)"};
}

// Sizes of 1 to 3 axes whose product is `ranks`.
std::vector<std::uint64_t> split_ranks(Random& random, std::uint64_t ranks) {
  std::vector<std::uint64_t> mesh(1 + random.below(3), 1);
  for (std::uint64_t factor = 2; ranks > 1; ++factor) {
    for (; ranks % factor == 0; ranks /= factor) mesh[random.below(mesh.size())] *= factor;
  }
  return mesh;
}

void random_rules(Random& random, RandomCase& c) {
  std::string list;
  for (std::size_t t = 0; t < c.index.tensors.size(); ++t) {
    const TensorMeta& tensor = c.index.tensors[t];
    std::size_t ndim = tensor.shape.ndim();
    std::string placements;
    std::vector<int> dims(c.mesh.size(), -1);
    for (std::size_t a = 0; a < c.mesh.size(); ++a) {
      if (ndim == 0 || random.one_in(3)) continue;  // an axis left out replicates
      dims[a] = static_cast<int>(random.below(ndim));
      // Half of them counted from the end.
      int written = random.one_in(2) ? dims[a] - static_cast<int>(ndim) : dims[a];
      placements += fmt::format("{}\"{}\": \"S({})\"", placements.empty() ? "" : ", ", c.axes[a], written);
    }
    list += fmt::format("{}{{\"match\": \"{}\", \"placements\": {{{}}}}}", list.empty() ? "" : ", ",
                        tensor.name, placements);
    c.dims.push_back(dims);
  }
  c.rules = fmt::format("{{\"rules\": [{}]}}", list);
}

void apply_preset(Random& random, RandomCase& c) {
  c.preset = random.of<std::string>({"fsdp2", "fsdp2", "replicate", "hsdp"});
  if (c.preset == "hsdp" && c.mesh.size() == 1) {
    c.mesh.push_back(1);
    c.axes.push_back("");
  }
  // dp_shard on any axis; for hsdp dp_replicate on another.
  std::size_t shard = random.below(c.mesh.size());
  c.axes[shard] = "dp_shard";
  if (c.preset == "hsdp") c.axes[(shard + 1) % c.mesh.size()] = "dp_replicate";
  for (const TensorMeta& tensor : c.index.tensors) {
    std::vector<int> dims(c.mesh.size(), -1);
    if (c.preset != "replicate" && tensor.shape.ndim() > 0) dims[shard] = 0;
    c.dims.push_back(dims);
  }
}

}  // namespace

std::uint64_t named_budget(const Error& error) {
  const std::string words = "the smallest budget that works is ";
  std::size_t at = error.message().find(words);
  if (at == std::string::npos) throw std::runtime_error("no budget in: " + error.message());
  return std::stoull(error.message().substr(at + words.size()));
}

void fit_budget(RandomCase& c) {
  Layout layout = c.layout();
  try {
    Planner::make(c.index, layout, c.params);
  } catch (const Error& error) {
    c.params.staging = named_budget(error);
  }
}

DType random_dtype(Random& random) {
  return static_cast<DType>(random.below(kDTypeCount));
}

RandomCase random_case(std::uint64_t seed, const CaseLimits& limits) {
  Random random(seed * 1000003 + 17);
  RandomCase c;
  c.seed = seed;
  c.index.path = "random";
  c.index.format = "table";
  c.index.files = {{"random", 0, 0, 0}};
  std::uint64_t offset = random.below(5000);
  std::uint64_t tensors = 1 + random.below(8);
  // Now and then many small ones, which share requests.
  bool small = random.one_in(5);
  if (small) tensors = 20 + random.below(20);
  for (std::uint64_t t = 0; t < tensors; ++t) {
    TensorMeta tensor;
    tensor.name = fmt::format("t{:02}.w", t);
    tensor.path = tensor.name;
    tensor.dtype = random_dtype(random);
    for (std::uint64_t length : random_shape(random, small ? 60 : limits.most_elements))
      tensor.shape.lengths().push_back(length);
    if (limits.any_storage) random_storage(random, tensor);
    tensor.offset = offset;
    tensor.stored_bytes = tensor.bytes();
    offset += tensor.bytes() + random.below(64);
    c.index.tensors.push_back(std::move(tensor));
  }
  c.mesh = split_ranks(random, limits.ranks != 0 ? limits.ranks : 1 + random.below(12));
  for (std::size_t a = 0; a < c.mesh.size(); ++a) c.axes.push_back(fmt::format("axis{}", a));
  if (random.one_in(3)) {
    apply_preset(random, c);
  } else {
    random_rules(random, c);
  }
  for (std::size_t a = 0; a < c.axes.size(); ++a) {
    if (c.axes[a].empty()) c.axes[a] = fmt::format("axis{}", a);
  }
  c.params.strategy = random.of<std::string>({"slab", "slab", "slab", "slab", "slab", "slab", "slab",
                                              "rank0-broadcast", "rank0-full", "every-rank"});
  c.params.staging = random.of<std::uint64_t>({0, 64, 500, 2000, 10000, 40000, 150000, 1 << 20, 256 << 20});
  c.params.min_read = random.of<std::uint64_t>({0, 1, 40, 300, 1000, 1 << 20});
  c.params.round_bytes = random.of<std::uint64_t>({64, 500, 3000, 20000, 64 << 20});
  if (random.one_in(3)) c.params.cast = random.of({DType::f32, DType::f16, DType::bf16});
  // From a source of their own: the cases of a seed stay what they were.
  Random slots(seed + 770077);
  c.params.pinned = slots.one_in(4);
  if (slots.one_in(4)) c.params.slots = slots.of<std::uint64_t>({1, 2, 3, 5});
  if (slots.one_in(4))
    c.params.slot_bytes = c.params.pinned ? slots.of<std::uint64_t>({4096, 16384}) : 1 << 20;
  return c;
}

std::uint64_t RandomCase::ranks() const {
  std::uint64_t product = 1;
  for (std::uint64_t size : mesh) product *= size;
  return product;
}

Layout RandomCase::layout() const {
  std::vector<MeshAxis> list;
  for (std::size_t a = 0; a < mesh.size(); ++a) list.push_back({axes[a], mesh[a]});
  return preset.empty() ? Layout::from_json(rules, "rules.json", Mesh(list), ranks())
                        : Layout::preset(preset, Mesh(list));
}

std::vector<std::uint64_t> RandomCase::shape(std::size_t tensor) const {
  const Dims& lengths = index.tensors[tensor].shape.lengths();
  return {lengths.begin(), lengths.end()};
}

std::string RandomCase::text() const {
  std::string out = fmt::format(
      "seed {}: {} staging {}{} slots {} of {} min-read {} round {} cast {} mesh {} layout {}\n", seed,
      params.strategy, params.staging, params.pinned ? " pinned" : "", params.slots, params.slot_bytes,
      params.min_read, params.round_bytes, params.cast ? dtype_name(*params.cast) : "none",
      layout().mesh().text(), preset.empty() ? rules : preset);
  for (const TensorMeta& t : index.tensors) {
    out += fmt::format("  {} {} {} {}{} {}\n", t.name, dtype_name(t.dtype), t.shape.text(),
                       storage_name(t.storage), t.filtered() ? ", filtered" : "",
                       t.chunk.empty() ? "" : dims_text(t.chunk));
  }
  return out;
}

}  // namespace slabload::testing
