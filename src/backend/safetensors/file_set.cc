#include "backend/safetensors/file_set.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "backend/safetensors/header.h"
#include "backend/safetensors/header_text.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload::safetensors {
namespace {

constexpr const char* kSingleName = "model.safetensors";

// Numbers of tensors that go into one file together.
using Group = std::vector<std::size_t>;

HeaderEntry entry_of(const TensorMeta& tensor) {
  return {tensor.name, tensor.dtype, &tensor.shape.lengths()};
}

std::vector<Group> groups_of(const TensorIndex& index, std::uint64_t max_file_bytes, std::uint64_t frame,
                             const std::string& target) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  std::vector<Group> groups(1);
  std::uint64_t header = frame;
  std::uint64_t data = 0;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    const HeaderEntry entry = entry_of(index.tensors[t]);
    const std::uint64_t bytes = entry.bytes();
    const std::uint64_t own = entry_bytes(entry, target);
    if (bytes > kMost) {
      fail(Status::file, "{}: tensor {} is larger than any file can be", printable(target),
           printable(index.tensors[t].name));
    }
    const bool alone = frame + own + bytes > max_file_bytes;
    const bool fits = header + own <= kMaxHeaderBytes && header + own + data + bytes <= max_file_bytes;
    if (!groups.back().empty() && (alone || !fits)) groups.emplace_back();
    if (groups.back().empty()) header = frame, data = 0;
    groups.back().push_back(t);
    header += own;
    data += bytes;
    // Nothing may follow a tensor that is too large already.
    if (alone && t + 1 < index.tensors.size()) groups.emplace_back();
  }
  return groups;
}

std::string file_name(std::size_t number, std::size_t files) {
  if (files == 1) return kSingleName;
  return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, files);
}

void check_names(const TensorIndex& index, const std::string& target) {
  std::unordered_set<std::string_view> names;
  for (const TensorMeta& t : index.tensors) {
    if (!names.insert(t.name).second)
      fail(Status::file, "{}: tensor {} is given twice", printable(target), printable(t.name));
  }
}

}  // namespace

FileSet split_into_files(const TensorIndex& index, std::uint64_t max_file_bytes, const std::string& target) {
  check_names(index, target);
  const std::map<std::string, std::string> metadata = header_metadata(index);
  const std::vector<Group> groups = groups_of(index, max_file_bytes, frame_bytes(metadata, target), target);
  FileSet set;
  set.places.resize(index.tensors.size());
  for (std::size_t f = 0; f < groups.size(); ++f) {
    std::vector<HeaderEntry> given, entries;
    for (std::size_t t : groups[f]) given.push_back(entry_of(index.tensors[t]));
    const std::vector<std::size_t> order = aligned_order(given);
    for (std::size_t i : order) entries.push_back(given[i]);
    PlannedFile file;
    file.name = file_name(f, groups.size());
    file.header = header_text(entries, metadata, target + "/" + file.name);
    file.size = file.header.size();
    for (std::size_t i : order) {
      set.places[groups[f][i]] = {narrow<std::uint32_t>(f), file.size};
      file.size += given[i].bytes();
    }
    set.files.push_back(std::move(file));
  }
  return set;
}

std::string index_text(const TensorIndex& index, const FileSet& set) {
  nlohmann::json out;
  out["metadata"]["total_size"] = index.total_bytes();
  out["weight_map"] = nlohmann::json::object();
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    out["weight_map"][index.tensors[t].name] = set.files[set.places[t].file].name;
  }
  return out.dump(2) + "\n";
}

std::map<std::string, std::string> header_metadata(const TensorIndex& index) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : index.metadata) {
    if (is_utf8(key) && is_utf8(value)) out.emplace(key, value);
  }
  out.try_emplace("format", "pt");
  for (const TensorMeta& t : index.tensors) {
    for (const std::string& alias : t.aliases) out.try_emplace(alias, t.name);
  }
  return out;
}

std::vector<std::string> metadata_left_out(const TensorIndex& index) {
  std::vector<std::string> out;
  for (const auto& [key, value] : index.metadata) {
    if (!is_utf8(key) || !is_utf8(value)) out.push_back(key);
  }
  return out;
}

bool is_set_name(const std::string& name) {
  constexpr std::string_view kPattern = "model-#-of-#.safetensors";  // # stands for five digits or more
  if (name == kSingleName || name == kIndexName) return true;
  std::size_t at = 0;
  for (char c : kPattern) {
    if (c != '#') {
      if (at == name.size() || name[at++] != c) return false;
      continue;
    }
    const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
    if (end - at < 5) return false;
    at = end;
  }
  return at == name.size();
}

}  // namespace slabload::safetensors
