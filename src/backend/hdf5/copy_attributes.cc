#include "backend/hdf5/copy_attributes.h"

#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "backend/hdf5/format.h"
#include "backend/hdf5/open_file.h"
#include "base/narrow.h"

namespace slabload::hdf5 {
namespace {

constexpr std::string_view kOurs = "slabload_";
constexpr std::size_t kMostInHeader = 64 << 10;  // an attribute in an object header; larger ones need a newer form of the file

class Copier {
 public:
  Copier(const std::string& source, hid_t target) : source_(source), file_(open_serial(source)), target_(target) {}

  // The attributes of the objects at these paths, if both are there.
  void copy(const std::string& from, const std::string& to) {
    ObjectHandle source(H5Oopen(file_.get(), from.c_str(), H5P_DEFAULT));
    ObjectHandle target(H5Oopen(target_, to.c_str(), H5P_DEFAULT));
    if (!source || !target) return;
    for (const std::string& name : names_of(source.get(), from)) {
      if (name.starts_with(kOurs) || H5Aexists(target.get(), name.c_str()) > 0) continue;
      const std::string reason = copy_one(source.get(), target.get(), name);
      if (!reason.empty()) {
        notes_.push_back(fmt::format("attribute '{}' of '{}' was not kept: {}", printable(name), printable(from), reason));
      }
    }
  }

  // Groups with nothing in them, which some frameworks look for by name, and what they carry.
  void copy_empty_groups() {
    std::vector<std::string> empty;
    auto visit = [](hid_t file, const char* name, const H5O_info_t* info, void* data) -> herr_t {
      H5G_info_t group{};
      if (info->type != H5O_TYPE_GROUP || H5Gget_info_by_name(file, name, &group, H5P_DEFAULT) < 0 || group.nlinks != 0) return 0;
      const std::string_view text = name;
      const bool ours = text == kGroup || text.starts_with(std::string(kGroup) + "/");
      if (text != "." && !ours) static_cast<std::vector<std::string>*>(data)->push_back("/" + std::string(text));
      return 0;
    };
    Where where{source_};
    SLABLOAD_HDF5(where, H5Ovisit2, file_.get(), H5_INDEX_NAME, H5_ITER_NATIVE, visit, &empty, H5O_INFO_BASIC);
    PropertyHandle parents(SLABLOAD_HDF5(where, H5Pcreate, H5P_LINK_CREATE));
    SLABLOAD_HDF5(where, H5Pset_create_intermediate_group, parents.get(), 1);
    for (const std::string& path : empty) {
      // Fails where a tensor has the name now; then there is nothing to carry over.
      GroupHandle made(H5Gcreate2(target_, path.c_str(), parents.get(), H5P_DEFAULT, H5P_DEFAULT));
      if (!made) continue;
      copy_groups_above(path);
      copy_group(path);
    }
  }

  void copy_groups_above(const std::string& path) {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
      copy_group(path.substr(0, slash));
  }

  std::vector<std::string> notes() { return std::move(notes_); }

 private:
  void copy_group(const std::string& path) {
    if (copied_.insert(path).second) copy(path, path);
  }

  std::vector<std::string> names_of(hid_t object, const std::string& path) const {
    std::vector<std::string> names;
    auto visit = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
      static_cast<std::vector<std::string>*>(data)->push_back(name);
      return 0;
    };
    hsize_t at = 0;
    Where where{source_, path};
    SLABLOAD_HDF5(where, H5Aiterate2, object, H5_INDEX_NAME, H5_ITER_INC, &at, visit, &names);
    return names;
  }

  // Returns why not, or nothing.
  static std::string copy_one(hid_t source, hid_t target, const std::string& name) {
    AttributeHandle from(H5Aopen(source, name.c_str(), H5P_DEFAULT));
    if (!from) return innermost_error();
    TypeHandle type(H5Aget_type(from.get()));
    SpaceHandle space(H5Aget_space(from.get()));
    if (!type || !space) return innermost_error();
    if (H5Tdetect_class(type.get(), H5T_REFERENCE) > 0) return "it refers to objects of the old file";
    if (H5Tcommitted(type.get()) > 0) {
      TypeHandle plain(H5Tcopy(type.get()));
      if (!plain) return innermost_error();
      type = std::move(plain);
    }
    const bool none = H5Sget_simple_extent_type(space.get()) == H5S_NULL;
    const hssize_t points = none ? 0 : H5Sget_simple_extent_npoints(space.get());
    const std::size_t element = H5Tget_size(type.get());
    if (points < 0 || element == 0) return innermost_error();
    if (narrow<std::uint64_t>(points) > kMostInHeader / element) return "it is larger than 64 KiB";
    std::vector<unsigned char> value(std::max<std::size_t>(1, narrow<std::size_t>(points) * element), 0);
    if (!none && H5Aread(from.get(), type.get(), value.data()) < 0) return innermost_error();
    std::string reason;
    AttributeHandle to(H5Acreate2(target, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
    if (!to || (!none && H5Awrite(to.get(), type.get(), value.data()) < 0)) reason = innermost_error();
    const bool variable =
        H5Tis_variable_str(type.get()) > 0 || H5Tdetect_class(type.get(), H5T_VLEN) > 0;
    if (!none && variable) H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, value.data());
    return reason;
  }

  std::string source_;
  FileHandle file_;
  hid_t target_;
  std::set<std::string> copied_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> copy_attributes(const TensorIndex& source, const TensorIndex& made, hid_t target) {
  Copier copier(source.files.at(0).path, target);
  copier.copy("/", "/");
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    const std::string& from = source.tensors[i].path;
    copier.copy(from, made.tensors.at(i).path);
    copier.copy_groups_above(from);
  }
  copier.copy_empty_groups();
  return copier.notes();
}

}  // namespace slabload::hdf5
