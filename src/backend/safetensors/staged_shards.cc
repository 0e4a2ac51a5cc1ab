#include "backend/safetensors/staged_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/narrow.h"
#include "layout/block_index.h"
#include "layout/rank_group.h"
#include "tensor/relayout.h"

namespace slabload {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using safetensors::HeaderTensor;
using safetensors::SafetensorsHeader;

constexpr std::size_t kMostOpen = 128;

const std::string& required(const SafetensorsHeader& header, const char* key, const std::string& file) {
  auto found = header.metadata.find(key);
  if (found == header.metadata.end()) {
    fail(Status::file, "{}: has no {} in its metadata: load --stage-out of this version did not write it", printable(file),
         key);
  }
  return found->second;
}

std::uint64_t required_number(const SafetensorsHeader& header, const char* key, const std::string& file) {
  const std::string& text = required(header, key, file);
  const bool digits = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) fail(Status::file, "{}: {} is '{}' and no number of ranks", printable(file), key, printable(text));
  return std::stoull(text);
}

Json required_object(const SafetensorsHeader& header, const char* key, const std::string& file) {
  Json json = Json::parse(required(header, key, file), nullptr, false);
  if (!json.is_object()) fail(Status::file, "{}: {} is no JSON object", printable(file), key);
  return json;
}

// The files of the set that are here, or an error.
std::string first_file(const std::string& folder) {
  std::error_code failed;
  std::string first;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("rank-") || !name.ends_with(".safetensors")) continue;
    if (first.empty() || name < first) first = name;
  }
  if (failed) fail(Status::file, "--stage-in {}: {}", printable(folder), failed.message());
  if (first.empty()) {
    fail(Status::file, "--stage-in {}: there is no rank-00000.safetensors or any other, as load --stage-out leaves them",
         printable(folder));
  }
  return folder + "/" + first;
}

// The tensors of the set, by what one file says of all of them.
TensorIndex staged_index(const SafetensorsHeader& header, const std::string& folder, const std::string& file) {
  TensorIndex index;
  index.path = folder;
  index.format = "staged";
  std::unordered_map<std::string, const HeaderTensor*> here;
  for (const HeaderTensor& tensor : header.tensors) here[tensor.name] = &tensor;
  try {
    const Json tensors = required_object(header, kStagedTensors, file);
    for (const auto& [name, place] : tensors.items()) {
      auto part = here.find(name);
      if (part == here.end()) fail(Status::file, "{}: lacks its part of tensor {}", printable(file), printable(name));
      TensorMeta tensor;
      tensor.name = tensor.path = name;
      tensor.dtype = part->second->dtype;
      const std::vector<std::uint64_t> lengths = place.at("global_shape").get<std::vector<std::uint64_t>>();
      tensor.shape = Shape(Dims(lengths.begin(), lengths.end()));
      if (place.contains("aliases")) tensor.aliases = place.at("aliases").get<std::vector<std::string>>();
      tensor.stored_bytes = tensor.bytes();
      index.tensors.push_back(std::move(tensor));
    }
    const Json metadata = required_object(header, kStagedMetadata, file);
    for (const auto& [key, value] : metadata.items())
      index.metadata[key] = value.get<std::string>();
  } catch (const Json::exception&) {
    fail(Status::file, "{}: its {} or {} is not of the form that load --stage-out writes", printable(file), kStagedTensors,
         kStagedMetadata);
  }
  return index;
}

}  // namespace

std::string staged_path(const std::string& folder, std::uint64_t rank) {
  return fmt::format("{}/rank-{:05}.safetensors", folder, rank);
}

StagedShards::StagedShards(std::string folder, std::uint64_t rank) : folder_(std::move(folder)), rank_(rank) {
  const std::string path = first_file(folder_);
  const SafetensorsHeader header = safetensors::read_header(host::File::open_read(path));
  set_ = required(header, kStagedSet, path);
  index_ = staged_index(header, folder_, path);
  const std::uint64_t ranks = required_number(header, kStagedRanks, path);
  const Mesh mesh = Mesh::parse(required(header, kStagedMesh, path));
  const std::string& name = required(header, kStagedLayout, path);
  auto rules = header.metadata.find(kStagedRules);
  layout_ = std::make_unique<Layout>(rules == header.metadata.end() ? Layout::preset(name, mesh)
                                                                    : Layout::from_json(rules->second, name, mesh, ranks));
  if (mesh.ranks() != ranks)
    fail(Status::file, "{}: a mesh of {} ranks, but shards of {}", printable(path), mesh.ranks(), ranks);
  resolved_ = layout_->resolve(index_);
  // A shape that is not that of the part next to it is not worth planning for.
  const std::uint64_t owner = required_number(header, kStagedRank, path);
  if (owner >= ranks) fail(Status::file, "{}: of rank {}, but there are {}", printable(path), owner, ranks);
  std::unordered_map<std::string, const HeaderTensor*> here;
  for (const HeaderTensor& tensor : header.tensors) here[tensor.name] = &tensor;
  if (here.size() != index_.tensors.size()) {
    fail(Status::file, "{}: has {} tensors, and its {} describes {}", printable(path), here.size(), kStagedTensors,
         index_.tensors.size());
  }
  for (std::size_t t = 0; t < index_.tensors.size(); ++t) {
    const TensorMeta& tensor = index_.tensors[t];
    const Shape& part = here.at(tensor.name)->shape;
    if (!(local_shard(tensor.shape, mesh, resolved_[t], mesh.coordinate(owner)).lengths() == part.lengths())) {
      fail(Status::file, "{}: tensor {}: a part of shape {} is not what the layout gives rank {} of {}", printable(path),
           printable(tensor.name), part.text(), owner, tensor.shape.text());
    }
  }
}

// A file of the set, or nullptr's place taken if it is not visible and need not be.
StagedShards::OpenFile& StagedShards::file_of(std::uint64_t rank, bool must_be_there) {
  auto found = open_.find(rank);
  const std::string path = staged_path(folder_, rank);
  if (found == open_.end()) {
    if (open_.size() >= kMostOpen) open_.clear();
    std::unique_ptr<OpenFile> open;
    std::error_code none;
    if (fs::exists(path, none) || must_be_there) {
      open = std::make_unique<OpenFile>();
      open->file = host::File::open_read(path);
      open->header = safetensors::read_header(open->file);
      if (required(open->header, kStagedSet, path) != set_)
        fail(Status::file, "{}: is of another load than the other files in the folder", printable(path));
      if (required_number(open->header, kStagedRank, path) != rank)
        fail(Status::file, "{}: holds the shards of rank {}", printable(path), required(open->header, kStagedRank, path));
      for (const HeaderTensor& tensor : open->header.tensors) open->tensors[tensor.name] = &tensor;
    }
    found = open_.emplace(rank, std::move(open)).first;
  }
  if (found->second == nullptr) throw Error(Status::file, path);
  return *found->second;
}

// Any of the ranks that had the same will do: this rank's own, or the first that is visible.
StagedShards::OpenFile& StagedShards::owner_of(const RankGroup& owners, std::uint64_t* rank) {
  const std::uint64_t size = owners.size();
  const std::uint64_t first = owners.find(rank_).value_or(rank_ % size);
  for (std::uint64_t i = 0; i < size; ++i) {
    *rank = owners[(first + i) % size];
    if (auto known = open_.find(*rank); known != open_.end() && known->second == nullptr) continue;
    try {
      return file_of(*rank, false);
    } catch (const Error& error) {
      if (error.message() != staged_path(folder_, *rank)) throw;
    }
  }
  fail(Status::file,
       "{}: is not here, and no other file that has the same; shards in node-local folders are saved by as many ranks as "
       "wrote them, in the same places and layout",
       printable(staged_path(folder_, owners[first])));
}

void StagedShards::read(std::size_t number, const Box& box, std::byte* out) {
  const TensorMeta& tensor = index_.tensors[number];
  const Mesh& mesh = layout_->mesh();
  const std::uint32_t mask = replica_mask(mesh, resolved_[number]);
  // A shard is visited block by block.
  for_each_shard(tensor.shape, mesh, resolved_[number], box, [&](const Dims& coordinate, const Box& part) {
    std::uint64_t owner = 0;
    OpenFile& file = owner_of(RankGroup::along(mesh, mask, mesh.rank_of(coordinate)), &owner);
    read_part(number, intersect(box, part), box, owner, file, out);
  });
}

void StagedShards::read_part(std::size_t number, const Box& piece, const Box& box, std::uint64_t owner, OpenFile& file,
                             std::byte* out) {
  const TensorMeta& tensor = index_.tensors[number];
  const std::uint64_t size = dtype_size(tensor.dtype);
  const Shard shard = local_shard(tensor.shape, layout_->mesh(), resolved_[number], layout_->mesh().coordinate(owner));
  auto found = file.tensors.find(tensor.name);
  const Dims lengths = shard.lengths();
  if (found == file.tensors.end() || found->second->dtype != tensor.dtype || !(found->second->shape.lengths() == lengths)) {
    fail(Status::file, "{}: tensor {}: is not the part that the layout gives rank {}", printable(file.file.path()),
         printable(tensor.name), owner);
  }
  const std::uint64_t begin = file.header.data_start + found->second->begin;
  BlockIndex(shard).for_each(piece, [&](const Box& block, const Box& frame, std::uint64_t before) {
    const Box part = intersect(piece, block);
    // In coordinates of the frame, the runs are those of a tensor of its shape.
    Box inside = part;
    for (std::size_t d = 0; d < inside.ndim(); ++d) inside.start[d] -= frame.start[d];
    buffer_.resize(part.elements() * size);
    std::byte* to = buffer_.data();
    for_each_run(Shape(frame.extent), inside, [&](std::uint64_t at, std::uint64_t length) {
      file.file.read_at(begin + (before + at) * size, to, length * size);
      to += length * size;
    });
    bytes_ += buffer_.size();
    relayout(make_relayout(narrow<std::uint32_t>(size), part, part, box), buffer_.data(), out);
  });
}

}  // namespace slabload
