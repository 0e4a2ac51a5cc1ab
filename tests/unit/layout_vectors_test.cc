// Layouts as PyTorch itself makes them (tests/vectors/make_layout_vectors.py): every rank's shape and
// elements.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "layout/fsdp2_storage.h"
#include "layout/shard.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using Runs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // start, extent

const nlohmann::json& vectors() {
  static const nlohmann::json json = [] {
    const auto path = std::filesystem::path(__FILE__).parent_path() / "../vectors/layouts.json";
    std::ifstream in(path);
    if (!in) throw std::runtime_error("cannot read " + path.string() + "; run the tests from the top folder");
    return nlohmann::json::parse(in);
  }();
  return json;
}

Mesh mesh_of(const nlohmann::json& c) {
  std::vector<MeshAxis> axes;
  for (const nlohmann::json& axis : c["mesh"])
    axes.push_back({axis[0].get<std::string>(), axis[1].get<std::uint64_t>()});
  return Mesh(axes);
}

TensorMeta tensor_of(const nlohmann::json& c) {
  TensorMeta t;
  t.name = "w";
  t.shape = Shape(Dims(c["shape"].begin(), c["shape"].end()));
  return t;
}

// The placements as a rules file has them.
Layout layout_of(const nlohmann::json& c, const Mesh& mesh) {
  nlohmann::json rules = {{"default", nlohmann::json::object()}};
  for (std::size_t axis = 0; axis < mesh.ndim(); ++axis)
    rules["default"][mesh.axis(axis).name] = c["placements"].at(axis);
  return Layout::from_json(rules.dump(), "vectors", mesh, 0);
}

// The runs of indices of each dimension whose product a shard is, in its order; none for an empty one.
std::vector<Runs> runs_of_dims(const Shard& shard) {
  std::vector<Runs> out;
  if (shard.empty()) return out;
  out.resize(shard.box.ndim());
  std::vector<std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>> by_place(out.size());
  std::uint64_t stacked = 0;
  for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box& frame, std::uint64_t) {
    for (std::size_t d = 0; d < out.size(); ++d) {
      // Where blocks are stacked, they are so along the one dimension that has several runs.
      std::uint64_t place = box.start[d] - frame.start[d];
      if (shard.stacked() && shard.blocks.size() > 1)
        place = box.extent[d] == shard.box.extent[d] ? 0 : stacked;
      by_place[d][place] = {box.start[d], box.extent[d]};
    }
    ++stacked;
  });
  for (std::size_t d = 0; d < out.size(); ++d) {
    for (const auto& [place, run] : by_place[d]) {
      if (!out[d].empty() && out[d].back().first + out[d].back().second == run.first) {
        out[d].back().second += run.second;
      } else {
        out[d].push_back(run);
      }
    }
  }
  return out;
}

// Compares all ranks of a case.
void check(const nlohmann::json& c, const Shape& shape, const Mesh& mesh, const TensorLayout& layout) {
  ASSERT_EQ(c["ranks"].size(), mesh.ranks());
  for (std::uint64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const nlohmann::json& expected = c["ranks"][rank];
    const Shard shard = local_shard(shape, mesh, layout, mesh.coordinate(rank));
    const Dims lengths = shard.lengths();
    const Dims local(expected["local"].begin(), expected["local"].end());
    // FSDP2 gives a parameter that TP left empty the shape of nothing in any dimension.
    if (c["kind"] == "fsdp2" && shard.empty()) {
      EXPECT_EQ(Shape(local).elements(), 0u) << rank;
    } else {
      EXPECT_EQ(dims_text(lengths), dims_text(local)) << rank;
    }
    EXPECT_EQ(nlohmann::json(runs_of_dims(shard)).dump(), expected["dims"].dump()) << rank;
    if (!expected.contains("off")) continue;
    for (std::size_t d = 0; d < shape.ndim(); ++d) {
      const std::uint64_t offset = expected["off"][d];
      if (shard.box.extent[d] == 0) {
        EXPECT_EQ(offset, shape[d]) << rank;
        EXPECT_EQ(shard.box.start[d], offset) << rank;
      } else if (shard.blocks.empty() && !shard.empty()) {
        EXPECT_EQ(shard.box.start[d], offset) << rank;
      } else if (!shard.empty()) {
        EXPECT_EQ(shard.blocks[0].box.start[d], offset) << rank;
      }
    }
  }
}

// Runs a test on all cases of a kind, and expects at least `least` of them.
template <typename Test>
void for_each_case(const std::string& kind, int least, Test&& test) {
  int count = 0;
  for (const nlohmann::json& c : vectors()["cases"]) {
    if (c["kind"] != kind) continue;
    nlohmann::json short_case = c;
    short_case.erase("ranks");
    SCOPED_TRACE(short_case.dump());
    test(c);
    ++count;
  }
  EXPECT_GE(count, least);
}

TEST(TorchVectors, DTensorPlacements) {
  auto test = [](const nlohmann::json& c) {
    const Mesh mesh = mesh_of(c);
    const TensorMeta tensor = tensor_of(c);
    check(c, tensor.shape, mesh, layout_of(c, mesh).resolve(tensor));
  };
  for_each_case("dtensor", 100, test);
  for_each_case("strided", 50, test);
}

TEST(TorchVectors, RefusedPlacements) {
  for_each_case("refused", 5, [](const nlohmann::json& c) {
    // Axes that have no placement replicate here; PyTorch wants one for each.
    if (c["placements"].size() != c["mesh"].size()) return;
    const Mesh mesh = mesh_of(c);
    EXPECT_EQ(thrown_error([&] { layout_of(c, mesh).resolve(tensor_of(c)); }).status(), Status::usage);
  });
}

TEST(TorchVectors, Fsdp2Storage) {
  int through_preset = 0, differ = 0;
  for_each_case("fsdp2", 50, [&](const nlohmann::json& c) {
    const Mesh mesh = mesh_of(c);
    TensorMeta tensor = tensor_of(c);
    // As it was really cut: "storage" has the axes in their order.
    TensorLayout storage;
    storage.dims.assign(mesh.ndim(), -1);
    std::string cuts;
    for (const nlohmann::json& cut : c["storage"]) {
      const std::size_t axis = mesh.find(cut[0].get<std::string>()).value();
      const std::int64_t dim = Placement::parse(cut[1].get<std::string>()).dim;
      storage.dims[axis] =
          static_cast<int>(dim < 0 ? dim + static_cast<std::int64_t>(tensor.shape.ndim()) : dim);
      storage.order.push_back(static_cast<std::uint8_t>(axis));
      cuts += mesh.axis(axis).name + "=" + std::to_string(storage.dims[axis]) + " ";
    }
    for (std::size_t axis = 0; axis < mesh.ndim(); ++axis) {
      if (storage.dims[axis] == -1) storage.order.push_back(static_cast<std::uint8_t>(axis));
    }
    check(c, tensor.shape, mesh, storage);

    // What the preset makes of it, where it would cut so.
    const std::map<std::string, std::string> names = {{"dp_shard=0 ", "other"},
                                                      {"tp=0 dp_shard=0 ", "l.0.q_proj.weight"},
                                                      {"tp=1 dp_shard=0 ", "l.0.o_proj.weight"}};
    auto name = names.find(cuts);
    if (name != names.end() && !mesh.find("ep")) {
      tensor.name = name->second;
      const Layout preset = Layout::preset("fsdp2", mesh);
      check(c, tensor.shape, mesh, preset.resolve(tensor));
      TensorIndex index;
      index.tensors = {tensor};
      EXPECT_EQ(preset.storage_differs(index).empty(), c["formula_same"].get<bool>());
      ++through_preset;
    }
    if (cuts == "tp=0 dp_shard=0 " || cuts == "tp=1 dp_shard=1 ") {
      const std::uint64_t n = tensor.shape[cuts[3] == '0' ? 0 : 1];
      EXPECT_EQ(
          formula_is_storage(n, mesh.axis(*mesh.find("dp_shard")).size, mesh.axis(*mesh.find("tp")).size),
          c["formula_same"].get<bool>());
      differ += !c["formula_same"].get<bool>();
    }
    // What the parameter says of itself is the formula.
    if (c["formula_same"].get<bool>()) check(c, tensor.shape, mesh, layout_of(c, mesh).resolve(tensor));
  });
  EXPECT_GE(through_preset, 40);
  EXPECT_GE(differ, 3);
}

TEST(TorchVectors, Fsdp1FlatRanges) {
  int without_gaps = 0;
  for_each_case("fsdp1", 10, [&](const nlohmann::json& c) {
    const Mesh mesh = mesh_of(c);
    const bool gaps = c["align"].get<std::uint64_t>() != 1;
    without_gaps += !gaps;
    for (std::size_t g = 0; g < c["groups"].size(); ++g) {
      const nlohmann::json& group = c["groups"][g];
      TensorIndex index;
      for (const nlohmann::json& param : group["params"]) {
        TensorMeta t;
        t.name = "block.0." + param[0].get<std::string>();
        t.shape = Shape(Dims(param[1].begin(), param[1].end()));
        index.tensors.push_back(t);
      }
      std::vector<TensorLayout> layouts = Layout::preset("fsdp1", mesh).resolve(index);
      for (std::size_t p = 0; p < layouts.size(); ++p) {
        // With use_orig_params PyTorch leaves gaps before parameters; the preset follows the rule without
        // them.
        if (gaps) {
          layouts[p].flat_before = group["params"][p][2];
          layouts[p].flat_total = group["numel"];
        }
        EXPECT_EQ(layouts[p].flat_before, group["params"][p][2].get<std::uint64_t>());
        const Shape& shape = index.tensors[p].shape;
        for (std::uint64_t rank = 0; rank < mesh.ranks(); ++rank) {
          const Shard shard = local_shard(shape, mesh, layouts[p], mesh.coordinate(rank));
          std::uint64_t begin = 0, end = 0;
          for_each_block(shard.box, shard.blocks, [&](const Box& box, const Box&, std::uint64_t) {
            const std::uint64_t at = flat_index(shape, box.start);
            if (begin == end) begin = end = at;
            EXPECT_EQ(at, end) << "blocks follow each other";
            end += box.elements();
          });
          const nlohmann::json& expected = c["ranks"][rank][g][p];
          if (begin == end) begin = end = 0;
          EXPECT_EQ(nlohmann::json({begin, end}).dump(), expected.dump())
              << "rank " << rank << " " << index.tensors[p].name;
        }
      }
    }
  });
  EXPECT_GE(without_gaps, 5);
}

}  // namespace
}  // namespace slabload
