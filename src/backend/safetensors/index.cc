#include "backend/safetensors/index.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "backend/host/file.h"
#include "backend/safetensors/header.h"
#include "backend/safetensors/strict_json.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload {
namespace {

namespace fs = std::filesystem;
using host::File;

// Tensor name to the file name that holds it.
using WeightMap = std::map<std::string, std::string>;

// Adds the tensors of one shard; `place` is where each name was found so far.
void add_shard(TensorIndex& index, const std::string& path,
               std::unordered_map<std::string, std::uint32_t>& place) {
  File file = File::open_read(path);
  host::FileState state = file.state();
  safetensors::SafetensorsHeader header = safetensors::read_header(file);
  auto number = narrow<std::uint32_t>(index.files.size());
  index.files.push_back({path, state.size, state.mtime_ns, state.inode});
  index.metadata_bytes += header.data_start;
  index.metadata.merge(header.metadata);  // keeps what is there
  for (safetensors::HeaderTensor& entry : header.tensors) {
    auto [at, added] = place.try_emplace(entry.name, number);
    if (!added) {
      fail(Status::file, "{}: tensor {} is in {} as well", printable(path), printable(entry.name),
           printable(index.files[at->second].path));
    }
    TensorMeta t;
    t.name = entry.name;
    t.path = std::move(entry.name);
    t.dtype = entry.dtype;
    t.shape = std::move(entry.shape);
    t.file = number;
    t.offset = header.data_start + entry.begin;
    t.stored_bytes = entry.end - entry.begin;
    index.tensors.push_back(std::move(t));
  }
}

WeightMap read_weight_map(const std::string& path) {
  File file = File::open_read(path);
  std::uint64_t size = file.state().size;
  std::string shown = printable(path);
  if (size > safetensors::kMaxHeaderBytes) {
    fail(Status::file, "{}: {} bytes, an index has {} at most", shown, size, safetensors::kMaxHeaderBytes);
  }
  std::string text(size, '\0');
  file.read_at(0, text.data(), size);
  nlohmann::json object = safetensors::parse_object(text, shown);
  auto found = object.find("weight_map");
  if (found == object.end()) fail(Status::file, "{}: no weight_map: not a safetensors index", shown);
  if (!found->is_object()) {
    fail(Status::file, "{}: weight_map is {}, not an object", shown, safetensors::kind_of(*found));
  }
  WeightMap map;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) {
      fail(Status::file, "{}: weight_map gives tensor {} {}, not a file name", shown, printable(name),
           safetensors::kind_of(value));
    }
    const auto& shard = value.get_ref<const std::string&>();
    if (shard.empty() || shard == "." || shard == ".." ||
        shard.find_first_of(std::string("/\0", 2)) != shard.npos) {
      fail(Status::file,
           "{}: weight_map puts tensor {} in '{}', which is not a plain name of a file in its folder", shown,
           printable(name), printable(shard));
    }
    map[name] = shard;
  }
  return map;
}

void read_indexed(TensorIndex& index, const std::string& index_path) {
  WeightMap map = read_weight_map(index_path);
  fs::path folder = fs::path(index_path).parent_path();
  std::map<std::string, std::string> first_tensor;  // of each shard, to name it by
  for (const auto& [name, shard] : map) first_tensor.try_emplace(shard, name);
  std::unordered_map<std::string, std::uint32_t> place;
  std::map<std::string, std::uint32_t> number_of;
  for (const auto& [shard, tensor] : first_tensor) {
    std::string path = folder / shard;
    std::error_code code;
    if (!fs::exists(path, code)) {
      fail(Status::file, "{}: the shard {} of tensor {} is not there", printable(index_path), printable(path),
           printable(tensor));
    }
    number_of[shard] = narrow<std::uint32_t>(index.files.size());
    add_shard(index, path, place);
  }
  for (const auto& [name, shard] : map) {
    auto found = place.find(name);
    if (found == place.end() || found->second != number_of[shard]) {
      fail(Status::file, "{}: tensor {} is not in {}, where the index puts it", printable(index_path),
           printable(name), printable(shard));
    }
  }
  for (const TensorMeta& t : index.tensors) {
    if (!map.contains(t.name)) {
      fail(Status::file, "{}: tensor {} of {} is not in the index", printable(index_path), printable(t.name),
           printable(index.files[t.file].path));
    }
  }
}

void read_folder(TensorIndex& index, const std::string& path) {
  std::vector<std::string> shards;
  std::vector<std::string> indexes;
  std::error_code code;
  fs::directory_iterator entry(path, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename();
    if (name.starts_with(".")) continue;
    if (name.ends_with(".safetensors")) shards.push_back(entry->path());
    // A folder may hold the index of the same weights in another format.
    if (name.ends_with(".index.json") && !name.ends_with(".bin.index.json")) indexes.push_back(entry->path());
  }
  if (code) fail(Status::file, "{}: cannot list the folder: {}", printable(path), code.message());
  if (indexes.size() == 1) return read_indexed(index, indexes.front());
  if (shards.empty())
    fail(Status::file, "{}: no *.safetensors and no single *.index.json in it", printable(path));
  std::sort(shards.begin(), shards.end());
  std::unordered_map<std::string, std::uint32_t> place;
  for (const std::string& shard : shards) add_shard(index, shard, place);
}

// Further names of a tensor stand among the metadata, as name to name; so writers of tied weights have it.
void take_aliases(TensorIndex& index) {
  std::unordered_map<std::string, TensorMeta*> tensors;
  for (TensorMeta& tensor : index.tensors) tensors[tensor.name] = &tensor;
  std::erase_if(index.metadata, [&](const auto& entry) {
    const auto& [key, value] = entry;
    auto tensor = tensors.find(value);
    if (key == "format" || tensor == tensors.end() || tensors.count(key) != 0) return false;
    tensor->second->aliases.push_back(key);  // sorted, as the metadata are
    return true;
  });
}

}  // namespace

TensorIndex read_safetensors_index(const std::string& path) {
  TensorIndex index;
  index.path = path;
  index.format = "safetensors";
  std::error_code code;
  if (fs::is_directory(path, code)) {
    read_folder(index, path);
  } else if (path.ends_with(".json")) {
    read_indexed(index, path);
  } else {
    std::unordered_map<std::string, std::uint32_t> place;
    add_shard(index, path, place);
  }
  take_aliases(index);
  sort_for_reading(index);
  return index;
}

bool looks_like_safetensors(const std::string& path) {
  std::error_code code;
  if (path.ends_with(".safetensors") || path.ends_with(".json") || fs::is_directory(path, code)) return true;
  try {
    unsigned char first[9];
    File::open_read(path).read_at(0, first, sizeof first);
    // A header length below 2^32 and the brace: no HDF5 file begins so.
    return first[8] == '{' && first[4] == 0 && first[5] == 0 && first[6] == 0 && first[7] == 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace slabload
