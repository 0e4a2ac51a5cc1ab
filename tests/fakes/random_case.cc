#include "fakes/random_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "fakes/reference.h"
#include "plan/staging.h"
#include "plan/way_choice.h"

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
  Random other(c.seed + 550055);
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
    // From a source of their own: the cases of a seed stay what they were.
    const std::uint64_t kind = other.below(6);
    if (kind == 0 && ndim > 0) {
      const std::size_t a = other.below(c.mesh.size());
      dims.assign(c.mesh.size(), -1);
      dims[a] = kFlatCode;
      placements = fmt::format("\"{}\": \"F\"", c.axes[a]);
    } else if (kind <= 2) {
      placements.clear();
      for (std::size_t a = 0; a < c.mesh.size(); ++a) {
        if (dims[a] >= 0 && other.one_in(2)) {
          const int factor = other.of({1, 2, 3, 4, 7});
          placements += fmt::format("{}\"{}\": \"SS({},{})\"", placements.empty() ? "" : ", ", c.axes[a], dims[a], factor);
          dims[a] = strided_code(dims[a], factor);
        } else if (dims[a] >= 0) {
          placements += fmt::format("{}\"{}\": \"S({})\"", placements.empty() ? "" : ", ", c.axes[a], dims[a]);
        }
      }
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

// A rule for a tensor of `shape`: the dimension that each axis shards, and the text of its placements.
std::vector<int> rich_placements(Random& random, const RandomCase& c, std::size_t ndim, std::string& text) {
  std::vector<int> dims(c.mesh.size(), -1);
  auto place = [&](std::size_t axis, int dim, int factor) {
    dims[axis] = factor == 0 ? dim : strided_code(dim, factor);
    text += fmt::format("{}\"{}\": \"", text.empty() ? "" : ", ", c.axes[axis]);
    text += factor == 0 ? fmt::format("S({})\"", dim) : fmt::format("SS({},{})\"", dim, factor);
  };
  const std::size_t one = random.below(c.mesh.size());
  const std::size_t two = (one + 1) % c.mesh.size();
  const auto dim = static_cast<int>(random.below(std::max<std::size_t>(ndim, 1)));
  const auto last = static_cast<int>(ndim) - 1;
  switch (ndim == 0 ? 0 : random.below(9)) {
    case 0:
    case 1:
      break;  // replicated
    case 2:
    case 3:
      place(one, 0, 0);
      break;
    case 4:
      place(one, last, 0);
      break;
    case 5:
      place(one, 0, 0);
      if (two != one) place(two, dim, 0);
      break;
    case 6:
      place(one, dim, random.of({1, 2, 3, 5}));
      if (two != one) place(two, dim, 0);
      break;
    case 7:
      place(one, 0, 2);
      break;
    default:
      dims[one] = kFlatCode;
      text = fmt::format("\"{}\": \"F\"", c.axes[one]);
  }
  return dims;
}

}  // namespace

RandomCase rich_case(std::uint64_t seed, const CaseLimits& limits) {
  Random random(seed * 7000003 + 29);
  RandomCase c;
  c.seed = seed;
  c.index.path = "rich";
  c.index.format = "table";
  c.index.files = {{"rich", 0, 0, 0}};
  c.mesh = random.of<std::vector<std::uint64_t>>({{2}, {3}, {4}, {2, 2}, {2, 3}, {3, 2}, {1, 4}, {2, 2, 2}, {5, 2}});
  for (std::size_t a = 0; a < c.mesh.size(); ++a) c.axes.push_back(fmt::format("axis{}", a));
  const DType dtype = random.of({DType::f32, DType::bf16, DType::u8});
  const bool gaps = random.one_in(3);
  std::uint64_t offset = random.below(100);
  std::string rules;
  const std::uint64_t tensors = 4 + random.below(9);
  for (std::uint64_t t = 0; t < tensors; ++t) {
    TensorMeta tensor;
    tensor.name = tensor.path = fmt::format("t{:02}.w", t);
    tensor.dtype = random.one_in(4) ? random_dtype(random) : dtype;
    for (std::uint64_t length : random_shape(random, random.of<std::uint64_t>({16, 100, limits.most_elements})))
      tensor.shape.lengths().push_back(length);
    if (limits.any_storage && random.one_in(5)) random_storage(random, tensor);
    tensor.offset = offset;
    tensor.stored_bytes = tensor.bytes();
    offset += tensor.bytes() + (gaps ? random.below(3) : 0);
    std::string placements;
    c.dims.push_back(rich_placements(random, c, tensor.shape.ndim(), placements));
    rules += fmt::format("{}{{\"match\": \"{}\", \"placements\": {{{}}}}}", t == 0 ? "" : ", ", tensor.name, placements);
    c.index.tensors.push_back(std::move(tensor));
  }
  c.rules = fmt::format("{{\"rules\": [{}]}}", rules);
  c.params.strategy = random.of<std::string>({"slab", "linear", "auto", "auto"});
  c.params.staging = random.of<std::uint64_t>({1500, 4000, 12000, 150000});
  c.params.min_read = random.of<std::uint64_t>({8, 40, 100, 400});
  c.params.round_bytes = random.of<std::uint64_t>({150, 600, 2000, 64 << 20});
  c.params.align = random.of<std::uint64_t>({0, 64, 1 << 20});
  Costs& costs = c.params.costs;
  costs.request_s = random.of({0.0, 1e-6, 1e-3});
  costs.message_s = random.of({0.0, 1e-7, 1e-5, 1e-3});
  if (random.one_in(2)) costs.fabric_rank = random.of({1e4, 1e6, 1e10});
  if (random.one_in(2)) costs.memory = random.of({1e4, 1e10});
  c.params.nodes = NodeMap(1 + random.below(4));
  if (random.one_in(6)) c.params.cast = random.of({DType::f32, DType::f16, DType::bf16});
  return c;
}

RandomCase preset_case(std::uint64_t seed) {
  Random random(seed * 900007 + 41);
  RandomCase c = rich_case(seed);  // for its parameters
  c.index.tensors.clear();
  c.dims.clear();
  c.rules.clear();
  c.preset = random.of<std::string>({"fsdp2+tp", "fsdp2+tp", "tp", "fsdp1", "zero3"});
  const bool tp = c.preset.ends_with("tp");
  const bool dp = c.preset != "tp";
  c.axes.clear();
  c.mesh.clear();
  auto axis = [&](const char* name, std::uint64_t size) {
    c.axes.emplace_back(name);
    c.mesh.push_back(size);
  };
  if (random.one_in(2)) axis("dp_replicate", 1 + random.below(3));
  if (dp) axis("dp_shard", 1 + random.below(4));
  if (tp) axis("tp", 1 + random.below(4));
  auto at = [&](const char* name) { return static_cast<std::size_t>(std::find(c.axes.begin(), c.axes.end(), name) - c.axes.begin()); };
  if (tp) c.order.push_back(at("tp"));
  for (std::size_t a = 0; a < c.axes.size(); ++a) {
    if (c.axes[a] != "tp") c.order.push_back(a);
  }
  c.flat_blocks = c.preset == "fsdp1";
  std::uint64_t offset = 0;
  auto add = [&](const std::string& name, std::vector<std::uint64_t> shape, int tp_dim) {
    TensorMeta tensor;
    tensor.name = tensor.path = name;
    tensor.dtype = random.one_in(8) ? DType::f32 : DType::bf16;
    for (std::uint64_t length : shape) tensor.shape.lengths().push_back(length);
    tensor.offset = offset;
    tensor.stored_bytes = tensor.bytes();
    offset += tensor.bytes();
    std::vector<int> dims(c.mesh.size(), -1);
    if (tp) dims[at("tp")] = tp_dim;
    if (dp && !shape.empty()) dims[at("dp_shard")] = c.preset.starts_with("fsdp2") ? 0 : kFlatCode;
    c.dims.push_back(std::move(dims));
    c.index.tensors.push_back(std::move(tensor));
  };
  const std::uint64_t hidden = random.of<std::uint64_t>({5, 8, 13, 16});
  const std::uint64_t inner = random.of<std::uint64_t>({3, 12, 24, 37});
  add("model.embed_tokens.weight", {random.of<std::uint64_t>({7, 40, 61}), hidden}, 0);
  for (std::uint64_t layer = 0; layer < 1 + random.below(3); ++layer) {
    const std::string of = fmt::format("model.layers.{}.", layer);
    add(of + "input_layernorm.weight", {hidden}, -1);
    add(of + "mlp.down_proj.weight", {hidden, inner}, 1);
    add(of + "mlp.gate_proj.weight", {inner, hidden}, 0);
    add(of + "mlp.up_proj.weight", {inner, hidden}, 0);
    add(of + "self_attn.k_proj.bias", {4}, 0);
    add(of + "self_attn.k_proj.weight", {4, hidden}, 0);
    add(of + "self_attn.o_proj.weight", {hidden, 2 * hidden}, 1);
    add(of + "self_attn.q_proj.bias", {2 * hidden}, 0);
    add(of + "self_attn.q_proj.weight", {2 * hidden, hidden}, 0);
  }
  add("model.norm.weight", {hidden}, -1);
  add("model.step", {}, -1);
  return c;
}

std::vector<Way> ways_of(const RandomCase& c) {
  const Layout layout = c.layout();
  const std::vector<PlanTensor> tensors = plan_tensors(c.index, layout, c.params);
  const std::uint64_t round = checked_split(c.params, converts_any(c.index, c.params.cast)).round_bytes;
  const WayChoice choice(c.index, c.params, round, layout.mesh().ranks());
  std::vector<Way> out;
  for (std::uint32_t t = 0; t < tensors.size(); ++t) out.push_back(choice.choose(c.params.strategy, t, tensors[t]));
  return out;
}

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
  Random more(seed + 330033);
  if (c.params.strategy == "slab") c.params.strategy = more.of<std::string>({"slab", "linear", "auto"});
  c.params.align = more.of<std::uint64_t>({0, 64, 1000, 4096, 1 << 20});
  if (more.one_in(3)) c.params.costs.fabric_rank = more.of({1e3, 1e6, 1e12});
  if (more.one_in(3)) c.params.costs.request_s = more.of({0.0, 1e-9, 1e-2});
  if (more.one_in(3)) c.params.costs.message_s = more.of({0.0, 1e-9, 1e-2});
  c.params.nodes = NodeMap(1 + more.below(5));
  if (more.one_in(2)) {
    // No gaps: what lies side by side may be read at once.
    std::uint64_t end = 0;
    for (TensorMeta& tensor : c.index.tensors) {
      tensor.offset = end;
      end += tensor.bytes();
    }
  }
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

std::vector<std::uint64_t> RandomCase::held(std::size_t tensor, std::uint64_t rank) const {
  if (flat_blocks) {
    // One range of the block's elements, end to end.
    auto block = [&](std::size_t t) {
      const std::string& name = index.tensors[t].name;
      return std::pair(name.substr(0, name.find_last_of("0123456789") + 1), index.tensors[t].dtype);
    };
    const auto axis = static_cast<std::size_t>(
        std::find(dims[tensor].begin(), dims[tensor].end(), kFlatCode) - dims[tensor].begin());
    if (axis == mesh.size()) return reference_held(shape(tensor), mesh, dims[tensor], rank);
    std::uint64_t before = 0;
    std::uint64_t total = 0;
    for (std::size_t t = 0; t < index.tensors.size(); ++t) {
      if (block(t) != block(tensor) || dims[t][axis] != kFlatCode) continue;
      if (t < tensor) before += index.tensors[t].elements();
      total += index.tensors[t].elements();
    }
    for (std::size_t a = mesh.size() - 1; a > axis; --a) rank /= mesh[a];
    const std::uint64_t step = (total + mesh[axis] - 1) / mesh[axis];
    const std::uint64_t part = rank % mesh[axis];
    std::vector<std::uint64_t> out;
    for (std::uint64_t i = 0; i < index.tensors[tensor].elements(); ++i) {
      if (before + i >= part * step && before + i < (part + 1) * step) out.push_back(i);
    }
    return out;
  }
  if (order.empty()) return reference_held(shape(tensor), mesh, dims[tensor], rank);
  // On a mesh whose axes lie in the order of the cuts.
  std::vector<std::uint64_t> at(mesh.size());
  for (std::size_t a = mesh.size(); a-- > 0; rank /= mesh[a]) at[a] = rank % mesh[a];
  std::vector<std::uint64_t> sizes;
  std::vector<int> cuts;
  std::uint64_t turned = 0;
  for (std::size_t a : order) {
    sizes.push_back(mesh[a]);
    cuts.push_back(dims[tensor][a]);
    turned = turned * mesh[a] + at[a];
  }
  return reference_held(shape(tensor), sizes, cuts, turned);
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
