#include "backend/hdf5/index.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/hdf5/attribute.h"
#include "backend/hdf5/dataset.h"
#include "backend/hdf5/format.h"
#include "backend/hdf5/open_file.h"
#include "backend/hdf5/walk.h"
#include "index/index_checksum.h"

namespace slabload {
namespace hdf5 {
namespace {

// Hard links only: another kind could lead into another file.
bool exists(hid_t file, const char* path, const Where& where) {
  if (SLABLOAD_HDF5(where, H5Lexists, file, path, H5P_DEFAULT) == 0) return false;
  H5L_info_t info;
  SLABLOAD_HDF5(where, H5Lget_info, file, path, &info, H5P_DEFAULT);
  return info.type == H5L_TYPE_HARD;
}

std::uint64_t required_number(hid_t group, const char* name, const Where& where) {
  std::optional<std::uint64_t> value = read_number(group, name, where);
  if (!value) fail(Status::file, "{}: attribute '{}' is missing", text(where), name);
  return *value;
}

void check_format(hid_t group, const Where& where) {
  std::uint64_t major = required_number(group, kFormatMajor, where);
  if (major != kMajor) {
    fail(Status::file, "file '{}': slabload format {}, this program reads format {}: use a newer slabload",
         printable(where.file), major, kMajor);
  }
  if (required_number(group, kComplete, where) == 0) {
    fail(Status::file, "file '{}': was never finished: its writer ended before the last step",
         printable(where.file));
  }
}

void read_metadata(hid_t file, std::uint64_t file_size, TensorIndex& index) {
  Where where{index.path, kMetadata};
  DatasetHandle dataset(SLABLOAD_HDF5(where, H5Dopen2, file, kMetadata, H5P_DEFAULT));
  Description found = describe_dataset(dataset.get(), file_size, where);
  if (!found.tensor || found.tensor->dtype != DType::u8)
    fail(Status::file, "{}: is not a list of bytes", text(where));
  std::string bytes(found.tensor->storage == StorageKind::fill ? 0 : found.tensor->elements(), '\0');
  if (bytes.empty()) return;
  SLABLOAD_HDF5(where, H5Dread, dataset.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  nlohmann::json json = nlohmann::json::parse(bytes, nullptr, false);
  if (!json.is_object()) fail(Status::file, "{}: is not a JSON object", text(where));
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) fail(Status::file, "{}: '{}' is not a string", text(where), printable(key));
    index.metadata[key] = value.get<std::string>();
  }
}

// The text attributes of the root group of a file that is not ours.
void read_root_attributes(hid_t file, TensorIndex& index) {
  Where where{index.path, "/"};
  std::vector<std::string> names;
  auto visit = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
    try {
      static_cast<std::vector<std::string>*>(data)->push_back(name);
      return 0;
    } catch (...) {
      return -1;
    }
  };
  GroupHandle root(SLABLOAD_HDF5(where, H5Gopen2, file, "/", H5P_DEFAULT));
  hsize_t start = 0;
  SLABLOAD_HDF5(where, H5Aiterate2, root.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &start, visit, &names);
  for (const std::string& name : names) {
    if (std::optional<std::string> value = read_text(root.get(), name.c_str(), where))
      index.metadata[name] = *value;
  }
}

void add_datasets(hid_t file, std::uint64_t file_size, TensorIndex& index) {
  Walk walk = walk_links(file, index.path, file_size, kGroup);
  index.skipped = std::move(walk.skipped);
  for (FoundDataset& found : walk.datasets) {
    Description& described = found.description;
    std::vector<std::string> others(found.hard.begin() + 1, found.hard.end());
    others.insert(others.end(), found.soft.begin(), found.soft.end());
    std::sort(others.begin(), others.end());
    if (described.tensor) {
      described.tensor->name = found.hard[0];
      described.tensor->aliases = std::move(others);
      index.tensors.push_back(std::move(*described.tensor));
      continue;
    }
    index.skipped.push_back({found.hard[0], described.reason});
    for (std::string& name : others) index.skipped.push_back({std::move(name), described.reason});
  }
}

// Our tensors whose names are no paths; the name is an attribute.
void add_odd_names(hid_t file, std::uint64_t file_size, TensorIndex& index) {
  Where where{index.path, kOddNames};
  GroupHandle group(SLABLOAD_HDF5(where, H5Gopen2, file, kOddNames, H5P_DEFAULT));
  H5G_info_t info;
  SLABLOAD_HDF5(where, H5Gget_info, group.get(), &info);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    std::string path = fmt::format("{}/{}", kOddNames, i);
    Where place{index.path, path};
    DatasetHandle dataset(SLABLOAD_HDF5(place, H5Dopen2, file, path.c_str(), H5P_DEFAULT));
    Description described = describe_dataset(dataset.get(), file_size, place);
    if (!described.tensor) fail(Status::file, "{}: {}", text(place), described.reason);
    std::optional<std::string> name = read_bytes(dataset.get(), kName, place);
    if (!name) fail(Status::file, "{}: attribute '{}' is missing", text(place), kName);
    described.tensor->name = *name;
    index.tensors.push_back(std::move(*described.tensor));
  }
}

void check_names(const TensorIndex& index) {
  std::set<std::string_view> seen;
  auto add = [&](const std::string& name) {
    if (!seen.insert(name).second) {
      fail(Status::file, "file '{}': two tensors are named '{}'", printable(index.path), printable(name));
    }
  };
  for (const TensorMeta& tensor : index.tensors) {
    add(tensor.name);
    for (const std::string& alias : tensor.aliases) add(alias);
  }
}

// Two tensors cannot have the same bytes: a second name is a link. `index` is sorted for reading.
void check_extents(const TensorIndex& index) {
  const TensorMeta* last = nullptr;
  for (const TensorMeta& tensor : index.tensors) {
    if (tensor.storage != StorageKind::contiguous || tensor.bytes() == 0) continue;
    if (last != nullptr && tensor.offset < last->offset + last->bytes()) {
      fail(Status::file, "file '{}': tensors '{}' and '{}' overlap at byte {}: the file is damaged",
           printable(index.path), printable(last->name), printable(tensor.name), tensor.offset);
    }
    last = &tensor;
  }
}

// Damaged metadata can still be well-formed, with other names, shapes or places. A status of wrong data, as
// for a tensor whose checksum fails: the file can be read, what it says is not what was saved.
void prove(hid_t file, bool ours, bool trust_index, TensorIndex& index) {
  const char* advice =
      "damaged, or changed on purpose by another program: then --trust-index takes it as it is, and import "
      "with --trust-index writes a new file of it";
  std::string name = printable(index.path);
  if (!ours) {
    // One flipped bit in the name of our group must not make our file anybody's.
    auto marked = std::find_if(index.tensors.begin(), index.tensors.end(),
                               [](const TensorMeta& tensor) { return tensor.crc64.has_value(); });
    if (marked == index.tensors.end()) return;
    index.proof = IndexProof::wrong;
    if (trust_index) return;
    fail(Status::wrong_data,
         "file '{}': tensor '{}' has a checksum of slabload, but the file has no group /{}: {}", name,
         printable(marked->name), kGroup, advice);
  }
  Where where{index.path, kGroup};
  GroupHandle group(SLABLOAD_HDF5(where, H5Gopen2, file, kGroup, H5P_DEFAULT));
  std::optional<std::uint64_t> expected = read_number(group.get(), kIndexCrc64, where);
  std::uint64_t minor = required_number(group.get(), kFormatMinor, where);
  if (!expected && minor == 0) return;
  std::uint64_t found = index_checksum(index);
  if (expected && *expected == found) {
    index.proof = IndexProof::right;
    return;
  }
  index.proof = IndexProof::wrong;
  if (trust_index) return;
  if (!expected)
    fail(Status::wrong_data, "{}: attribute '{}' is missing: {}", text(where), kIndexCrc64, advice);
  fail(Status::wrong_data,
       "file '{}': its names, shapes, types or places of tensors are not those that were written (CRC-64 "
       "{:016x}, "
       "expected {:016x}): {}",
       name, found, *expected, advice);
}

}  // namespace
}  // namespace hdf5

TensorIndex read_hdf5_index(const std::string& path, bool trust_index) {
  using namespace hdf5;
  QuietErrors quiet;
  TensorIndex index;
  index.path = path;
  index.format = "hdf5";
  index.files.push_back(stat_file(path));
  std::uint64_t size = index.files[0].size;
  FileHandle file = open_serial(path);
  Where where{path, kGroup};
  bool ours = exists(file.get(), kGroup, where);
  if (ours) {
    GroupHandle group(SLABLOAD_HDF5(where, H5Gopen2, file.get(), kGroup, H5P_DEFAULT));
    check_format(group.get(), where);
    if (exists(file.get(), kMetadata, where)) read_metadata(file.get(), size, index);
  } else {
    read_root_attributes(file.get(), index);
  }
  add_datasets(file.get(), size, index);
  if (ours && exists(file.get(), kOddNames, where)) add_odd_names(file.get(), size, index);
  check_names(index);
  prove(file.get(), ours, trust_index, index);
  sort_for_reading(index);
  check_extents(index);
  check_same(index.files[0]);
  std::uint64_t stored = 0;
  for (const TensorMeta& tensor : index.tensors) stored += tensor.stored_bytes;
  index.metadata_bytes = size > stored ? size - stored : 0;
  std::sort(index.skipped.begin(), index.skipped.end(),
            [](const SkippedObject& a, const SkippedObject& b) { return a.name < b.name; });
  return index;
}

}  // namespace slabload
