#include "backend/hdf5/names.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "backend/hdf5/format.h"
#include "base/error.h"

namespace slabload::hdf5 {
namespace {

// True if a proper prefix of the name, up to a slash, is itself a tensor.
bool lies_below(std::string_view name, const std::unordered_set<std::string_view>& tensors) {
  for (std::size_t slash = name.find('/'); slash != std::string_view::npos;
       slash = name.find('/', slash + 1)) {
    if (tensors.contains(name.substr(0, slash))) return true;
  }
  return false;
}

}  // namespace

bool is_dataset_path(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) return false;
  if (name.substr(0, name.find('/')) == kGroup) return false;
  if (static_cast<std::size_t>(std::count(name.begin(), name.end(), '/')) >= kMostDepth) return false;
  for (std::size_t begin = 0; begin <= name.size();) {
    std::size_t end = std::min(name.find('/', begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::vector<std::string> dataset_paths(const TensorIndex& index) {
  std::unordered_set<std::string_view> names;
  for (const TensorMeta& tensor : index.tensors) {
    if (!names.insert(tensor.name).second)
      fail(Status::file, "two tensors are named '{}'", printable(tensor.name));
  }
  std::vector<std::string> paths;
  paths.reserve(index.tensors.size());
  std::size_t odd = 0;
  for (const TensorMeta& tensor : index.tensors) {
    bool plain = is_dataset_path(tensor.name) && !lies_below(tensor.name, names);
    paths.push_back(plain ? "/" + tensor.name : fmt::format("{}/{}", kOddNames, odd++));
  }
  return paths;
}

}  // namespace slabload::hdf5
