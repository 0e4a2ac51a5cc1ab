#include "backend/hdf5/walk.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "backend/hdf5/format.h"

namespace slabload::hdf5 {
namespace {

struct Link {
  std::string name;
  H5L_type_t type;
  haddr_t address;  // of a hard link
};

struct Group {
  std::string path;  // without the leading slash; empty for the root
  haddr_t address;
  std::size_t parent;  // its number in Walker::groups_
  std::size_t depth;   // 0 for the root
};

// Reads a group's links; exceptions must not pass through the library.
std::vector<Link> links_of(hid_t group, const Where& where) {
  std::vector<Link> out;
  auto visit = [](hid_t, const char* name, const H5L_info_t* info, void* data) -> herr_t {
    try {
      haddr_t address = info->type == H5L_TYPE_HARD ? info->u.address : HADDR_UNDEF;
      static_cast<std::vector<Link>*>(data)->push_back({name, info->type, address});
      return 0;
    } catch (...) {
      return -1;
    }
  };
  SLABLOAD_HDF5(where, H5Literate, group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, visit, &out);
  std::sort(out.begin(), out.end(), [](const Link& a, const Link& b) { return a.name < b.name; });
  return out;
}

herr_t refuse_external(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

class Walker {
 public:
  Walker(hid_t file, std::string_view file_name, std::uint64_t file_size, std::string_view except)
      : file_(file),
        file_name_(file_name),
        file_size_(file_size),
        except_(except),
        no_external_(SLABLOAD_HDF5(root(), H5Pcreate, H5P_LINK_ACCESS)) {
    SLABLOAD_HDF5(root(), H5Pset_elink_cb, no_external_.get(), refuse_external, nullptr);
  }

  Walk run() {
    H5O_info_t info;
    SLABLOAD_HDF5(root(), H5Oget_info2, file_, &info, H5O_INFO_BASIC);
    add_group("", info.addr, 0);
    // Group by group, the shortest paths first; groups_ grows meanwhile.
    for (std::size_t i = 0; i < groups_.size(); ++i) visit(i);
    for (const std::string& path : soft_) resolve(path);
    for (const auto& [path, group] : other_paths_) name_again(path, group);
    return take();
  }

 private:
  Where root() const { return {file_name_, "/"}; }

  void skip(std::string name, std::string reason) {
    skipped_.push_back({std::move(name), std::move(reason)});
  }

  void add_group(std::string path, haddr_t address, std::size_t parent) {
    const std::size_t depth = groups_.empty() ? 0 : groups_[parent].depth + 1;
    group_at_[address] = groups_.size();
    groups_.push_back({std::move(path), address, parent, depth});
  }

  bool is_ancestor(std::size_t candidate, std::size_t group) const {
    while (group != candidate && group != 0) group = groups_[group].parent;
    return group == candidate;
  }

  void second_path(const std::string& path, std::size_t group, std::size_t from) {
    if (is_ancestor(group, from)) {
      skip(path, fmt::format("cyclic link to group '/{}'", groups_[group].path));
    } else {
      other_paths_.push_back({path, group});
    }
  }

  // Another path to a group gives every tensor below it another name. A crafted file can make that many, so
  // the work is bounded; what is beyond it is reported.
  void name_again(const std::string& path, std::size_t group) {
    constexpr std::uint64_t kMostSteps = 10'000'000;
    alias_steps_ += datasets_.size();
    if (alias_steps_ > kMostSteps) {
      skip(path,
           fmt::format("one more path to group '/{}', whose tensors are named there", groups_[group].path));
      return;
    }
    std::string below = groups_[group].path.empty() ? "" : groups_[group].path + "/";
    for (FoundDataset& found : datasets_) {
      std::size_t names = found.hard.size();
      for (std::size_t i = 0; i < names; ++i) {
        if (found.hard[i].compare(0, below.size(), below) == 0) {
          found.soft.push_back(path + "/" + found.hard[i].substr(below.size()));
        }
      }
    }
  }

  void visit(std::size_t number) {
    std::string prefix = groups_[number].path;
    std::string absolute = "/" + prefix;
    if (!prefix.empty()) prefix += '/';
    Where where{file_name_, absolute};
    GroupHandle group(SLABLOAD_HDF5(where, H5Gopen2, file_, absolute.c_str(), H5P_DEFAULT));
    for (const Link& link : links_of(group.get(), where)) {
      if (number == 0 && link.name == except_) continue;
      std::string path = prefix + link.name;
      if (link.type == H5L_TYPE_HARD) {
        hard_link(group.get(), link, path, number);
      } else if (link.type == H5L_TYPE_SOFT) {
        soft_.push_back(path);
        soft_from_[path] = number;
      } else if (link.type == H5L_TYPE_EXTERNAL) {
        skip(path, external_text(group.get(), link.name));
      } else {
        skip(path, fmt::format("user-defined link of class {}", static_cast<int>(link.type)));
      }
    }
  }

  void hard_link(hid_t group, const Link& link, const std::string& path, std::size_t from) {
    if (auto known = group_at_.find(link.address); known != group_at_.end()) {
      second_path(path, known->second, from);
      return;
    }
    if (auto known = dataset_at_.find(link.address); known != dataset_at_.end()) {
      datasets_[known->second].hard.push_back(path);
      return;
    }
    Where where{file_name_, path};
    ObjectHandle object(SLABLOAD_HDF5(where, H5Oopen, group, link.name.c_str(), no_external_.get()));
    switch (H5Iget_type(object.get())) {
      case H5I_GROUP:
        if (groups_[from].depth >= kMostDepth) {
          skip(path, fmt::format("below {} groups, not followed", kMostDepth));
        } else {
          add_group(path, link.address, from);
        }
        break;
      case H5I_DATASET:
        dataset_at_[link.address] = datasets_.size();
        datasets_.push_back({{path}, {}, describe_dataset(object.get(), file_size_, where)});
        break;
      case H5I_DATATYPE:
        skip(path, "named datatype");
        break;
      default:
        skip(path, "object of unknown kind");
        break;
    }
  }

  static std::string external_text(hid_t group, const std::string& name) {
    const std::string plain = "external link, not followed";
    H5L_info_t info;
    if (H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT) < 0) return plain;
    std::vector<char> value(info.u.val_size + 1);
    const char* target_file = nullptr;
    const char* target = nullptr;
    if (H5Lget_val(group, name.c_str(), value.data(), info.u.val_size, H5P_DEFAULT) < 0 ||
        H5Lunpack_elink_val(value.data(), info.u.val_size, nullptr, &target_file, &target) < 0) {
      return plain;
    }
    return fmt::format("{} (to '{}' in file '{}')", plain, printable(target), printable(target_file));
  }

  // Where a soft link leads, by the address of the object there: the hard links have named everything
  // already.
  void resolve(const std::string& path) {
    H5O_info_t info;
    std::string absolute = "/" + path;
    if (H5Oget_info_by_name2(file_, absolute.c_str(), &info, H5O_INFO_BASIC, no_external_.get()) < 0) {
      skip(path, "dangling soft link");
    } else if (auto group = group_at_.find(info.addr); group != group_at_.end()) {
      second_path(path, group->second, soft_from_[path]);
    } else if (auto dataset = dataset_at_.find(info.addr); dataset != dataset_at_.end()) {
      datasets_[dataset->second].soft.push_back(path);
    } else {
      skip(path, "soft link to something that is no tensor");
    }
  }

  Walk take() {
    for (FoundDataset& found : datasets_) {
      std::sort(found.hard.begin(), found.hard.end());
      std::sort(found.soft.begin(), found.soft.end());
      if (found.description.tensor) found.description.tensor->path = "/" + found.hard[0];
    }
    std::sort(datasets_.begin(), datasets_.end(),
              [](const FoundDataset& a, const FoundDataset& b) { return a.hard[0] < b.hard[0]; });
    return {std::move(datasets_), std::move(skipped_)};
  }

  hid_t file_;
  std::string_view file_name_;
  std::uint64_t file_size_;
  std::string_view except_;
  PropertyHandle no_external_;
  std::deque<Group> groups_;
  std::unordered_map<haddr_t, std::size_t> group_at_;
  std::vector<FoundDataset> datasets_;
  std::unordered_map<haddr_t, std::size_t> dataset_at_;
  std::vector<std::string> soft_;
  std::unordered_map<std::string, std::size_t> soft_from_;
  std::vector<std::pair<std::string, std::size_t>> other_paths_;  // to a group that has been visited
  std::uint64_t alias_steps_ = 0;
  std::vector<SkippedObject> skipped_;
};

}  // namespace

Walk walk_links(hid_t file, std::string_view file_name, std::uint64_t file_size, std::string_view except) {
  return Walker(file, file_name, file_size, except).run();
}

}  // namespace slabload::hdf5
