// Layout::from_json: the rules file.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "layout/layout.h"
#include "layout/name_pattern.h"
#include "layout/name_rules.h"
#include "layout/rules_json.h"

namespace slabload {
namespace {

using Json = nlohmann::ordered_json;

Mesh mesh_of(const Json& json, const std::string& source) {
  // Mesh names the option; here the text comes from the file.
  auto made = [&](auto&& make) -> Mesh {
    try {
      return make();
    } catch (const Error& error) {
      std::string reason = error.message();
      if (reason.starts_with("--mesh: ")) reason.erase(0, 8);
      fail(error.status(), "{}: \"mesh\": {}", source, reason);
    }
  };
  if (json.is_string()) return made([&] { return Mesh::parse(json.get<std::string>()); });
  if (!json.is_object()) fail(Status::usage, "{}: \"mesh\" is neither a string nor an object", source);
  std::vector<MeshAxis> axes;
  for (const auto& [name, size] : json.items()) {
    if (!size.is_number_unsigned())
      fail(Status::usage, "{}: mesh axis {} has no whole size", source, printable(name));
    axes.push_back({name, size.get<std::uint64_t>()});
  }
  return made([&] { return Mesh(std::move(axes)); });
}

std::vector<Placement> placements_of(const Json& json, const Mesh& mesh, const std::string& where) {
  if (!json.is_object())
    fail(Status::usage, "{}: placements are an object {{axis: \"R\", \"S(d)\", \"SS(d,f)\" or \"F\"}}",
         where);
  std::vector<Placement> out(mesh.ndim());
  for (const auto& [name, text] : json.items()) {
    auto axis = mesh.find(name);
    if (!axis) fail(Status::usage, "{}: axis {} is not in the mesh {}", where, printable(name), mesh.text());
    if (!text.is_string())
      fail(Status::usage, "{}: the placement on axis {} is not a string", where, printable(name));
    try {
      out[*axis] = Placement::parse(text.get<std::string>());
    } catch (const Error& error) {
      fail(error.status(), "{}: axis {}: {}", where, printable(name), error.message());
    }
  }
  return out;
}

void check_keys(const Json& json, std::initializer_list<std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail(Status::usage, "{}: unknown key \"{}\"", where, printable(key));
    }
  }
}

}  // namespace

Layout Layout::from_json(std::string_view text, const std::string& source,
                         const std::optional<Mesh>& mesh_override, std::uint64_t ranks) {
  Json json = parse_rules(text, source);
  check_keys(json, {"mesh", "rules", "default", "rename", "alias"}, source);
  NameRules::from_json(text, source);  // so that a mistake in them is found wherever the file is read
  auto choose_mesh = [&] {
    if (mesh_override) return *mesh_override;
    if (json.contains("mesh")) return mesh_of(json["mesh"], source);
    return Mesh({{"dp_shard", ranks}});
  };
  Layout layout(source, choose_mesh());
  if (json.contains("rules")) {
    if (!json["rules"].is_array()) fail(Status::usage, "{}: \"rules\" is not a list", source);
    for (const Json& rule : json["rules"]) {
      std::string where = fmt::format("{}: rule {}", source, layout.rules_.size() + 1);
      if (!rule.is_object() || !rule.contains("match") || !rule["match"].is_string() ||
          !rule.contains("placements")) {
        fail(Status::usage, "{}: expected {{\"match\": GLOB, \"placements\": {{...}}}}", where);
      }
      check_keys(rule, {"match", "placements"}, where);
      std::string match = rule["match"].get<std::string>();
      check_glob(match, where);
      where += fmt::format(" ('{}')", printable(match));
      layout.rules_.push_back({match, placements_of(rule["placements"], layout.mesh_, where)});
    }
  }
  if (json.contains("default")) {
    layout.rules_.push_back({"", placements_of(json["default"], layout.mesh_, source + ": default")});
  }
  if (layout.rules_.empty()) fail(Status::usage, "{}: neither rules nor a default", source);
  return layout;
}

}  // namespace slabload
