#include "layout/mesh.h"

#include <charconv>

#include "base/error.h"
#include "base/narrow.h"

namespace slabload {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)), strides_(axes_.size()) {
  if (axes_.empty()) fail(Status::usage, "--mesh: a mesh needs at least one axis");
  if (axes_.size() > 16) fail(Status::usage, "--mesh: {} axes, at most 16 are taken", axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const MeshAxis& axis = axes_[i];
    if (axis.name.empty()) fail(Status::usage, "--mesh: an axis has no name");
    // It stands in reports, in the metadata of shards and before '=' on the command line.
    for (char c : axis.name) {
      if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f || c == '=' || c == ',')
        fail(Status::usage, "--mesh: '{}' is no name for an axis", printable(axis.name));
    }
    if (axis.size == 0) fail(Status::usage, "--mesh: axis {} has size 0", printable(axis.name));
    for (std::size_t j = 0; j < i; ++j) {
      if (axes_[j].name == axis.name)
        fail(Status::usage, "--mesh: axis {} is given twice", printable(axis.name));
    }
    strides_[i] = ranks_;
    if (!checked_multiply(ranks_, axis.size, &ranks_) || ranks_ > INT32_MAX) {
      fail(Status::usage, "--mesh: more than 2^31 ranks");
    }
  }
}

Mesh Mesh::parse(std::string_view text) {
  std::vector<MeshAxis> axes;
  std::string_view rest = text;
  for (;;) {
    std::size_t comma = rest.find(',');
    std::string_view part = rest.substr(0, comma);
    std::size_t equals = part.find('=');
    std::uint64_t size = 0;
    std::string_view number = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), size);
    if (number.empty() || code != std::errc() || end != number.data() + number.size()) {
      fail(Status::usage, "--mesh: '{}' is not NAME=SIZE[,NAME=SIZE...]", printable(text));
    }
    axes.push_back({std::string(part.substr(0, equals)), size});
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return Mesh(std::move(axes));
}

std::optional<std::size_t> Mesh::find(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return i;
  }
  return std::nullopt;
}

Dims Mesh::coordinate(std::uint64_t rank) const {
  Dims at(axes_.size(), 0);
  for (std::size_t i = 0; i < axes_.size(); ++i) at[i] = rank / strides_[i] % axes_[i].size;
  return at;
}

std::uint64_t Mesh::rank_of(const Dims& coordinate) const {
  std::uint64_t rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) rank += coordinate[i] * strides_[i];
  return rank;
}

std::string Mesh::text() const {
  std::string out;
  for (const MeshAxis& axis : axes_) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", axis.name, axis.size);
  }
  return out;
}

}  // namespace slabload
