#include "backend/hdf5/create.h"

#include <nlohmann/json.hpp>

#include "backend/hdf5/attribute.h"
#include "backend/hdf5/copy_attributes.h"
#include "backend/hdf5/dataset.h"
#include "backend/hdf5/dtype.h"
#include "backend/hdf5/format.h"
#include "backend/hdf5/names.h"
#include "backend/hdf5/open_file.h"
#include "base/bytes.h"
#include "base/narrow.h"
#include "index/index_checksum.h"

namespace slabload::hdf5 {
namespace {

// Tensors of this size and more start on a page of the file system.
constexpr hsize_t kAlignThreshold = 64 * kKiB;
constexpr hsize_t kAlignment = 4 * kKiB;

class Creator {
 public:
  Creator(const std::string& path, const CreateOptions& options) : where_{path}, options_(options) {
    PropertyHandle fapl(SLABLOAD_HDF5(where_, H5Pcreate, H5P_FILE_ACCESS));
    SLABLOAD_HDF5(where_, H5Pset_fapl_sec2, fapl.get());
    SLABLOAD_HDF5(where_, H5Pset_alignment, fapl.get(), kAlignThreshold, kAlignment);
    file_ =
        FileHandle(SLABLOAD_HDF5(where_, H5Fcreate, path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, fapl.get()));
    dcpl_ = PropertyHandle(SLABLOAD_HDF5(where_, H5Pcreate, H5P_DATASET_CREATE));
    SLABLOAD_HDF5(where_, H5Pset_layout, dcpl_.get(), H5D_CONTIGUOUS);
    SLABLOAD_HDF5(where_, H5Pset_alloc_time, dcpl_.get(), H5D_ALLOC_TIME_EARLY);
    SLABLOAD_HDF5(where_, H5Pset_fill_time, dcpl_.get(), H5D_FILL_TIME_NEVER);
    SLABLOAD_HDF5(where_, H5Pset_obj_track_times, dcpl_.get(), false);  // the same tensors give the same file
    lcpl_ = PropertyHandle(SLABLOAD_HDF5(where_, H5Pcreate, H5P_LINK_CREATE));
    SLABLOAD_HDF5(where_, H5Pset_create_intermediate_group, lcpl_.get(), 1);
    SLABLOAD_HDF5(where_, H5Pset_char_encoding, lcpl_.get(), H5T_CSET_UTF8);
  }

  void add_group(const std::map<std::string, std::string>& metadata) {
    Where where{where_.file, kGroup};
    GroupHandle group(
        SLABLOAD_HDF5(where, H5Gcreate2, file_.get(), kGroup, lcpl_.get(), H5P_DEFAULT, H5P_DEFAULT));
    write_number(group.get(), kFormatMajor, kMajor, where);
    write_number(group.get(), kFormatMinor, kMinor, where);
    write_number(group.get(), kComplete, 0, where);
    write_number(group.get(), kIndexCrc64, 0, where);
    write_text(group.get(), kGenerator, "slabload", where);
    if (!metadata.empty()) add_metadata(metadata);
  }

  // The type handles are shared by all tensors of a dtype.
  void add_tensor(TensorMeta& tensor) {
    Where where{where_.file, tensor.path};
    TypeHandle& type = types_[static_cast<std::size_t>(tensor.dtype)];
    if (!type) type = create_dtype(tensor.dtype);
    if (options_.chunk_bytes != 0) tensor.chunk = chunk_shape(tensor, options_.chunk_bytes);
    PropertyHandle chunked;
    if (!tensor.chunk.empty()) chunked = chunked_properties(tensor, where);
    DatasetHandle dataset =
        create_dataset(tensor.path.c_str(), type.get(), tensor.shape, chunked ? chunked.get() : dcpl_.get(), where);
    if (tensor.path.substr(1) != tensor.name) write_bytes(dataset.get(), kName, tensor.name, where);
    write_number(dataset.get(), kCrc64, 0, where);
    // Soft links, so that the name stays the dataset's own.
    std::erase_if(tensor.aliases, [&](const std::string& alias) {
      const bool kept = is_dataset_path(alias) && tensor.path.substr(1) == tensor.name &&
                        H5Lcreate_soft(tensor.path.c_str(), file_.get(), alias.c_str(), lcpl_.get(), H5P_DEFAULT) >= 0;
      if (!kept)
        notes_.push_back(fmt::format("alias '{}' of '{}' was not kept", printable(alias), printable(tensor.name)));
      return !kept;
    });
    tensor.storage = tensor.elements() == 0 ? StorageKind::fill : StorageKind::contiguous;
    tensor.offset = 0;
    tensor.stored_bytes = tensor.bytes();
    if (tensor.elements() == 0) return;
    if (!tensor.chunk.empty()) {
      tensor.storage = StorageKind::chunked;
      return;
    }
    haddr_t offset = H5Dget_offset(dataset.get());
    if (offset == HADDR_UNDEF)
      fail(Status::file, "{}: no space was allocated: {}", text(where), innermost_error());
    tensor.offset = offset;
  }

  hid_t file() const { return file_.get(); }
  std::vector<std::string> notes() { return std::move(notes_); }

  void close() {
    lcpl_.reset();
    dcpl_.reset();
    close_file(file_, where_);
  }

 private:
  // Sets the tensor's filters as well.
  PropertyHandle chunked_properties(TensorMeta& tensor, const Where& where) {
    PropertyHandle dcpl(SLABLOAD_HDF5(where, H5Pcopy, dcpl_.get()));
    std::vector<hsize_t> chunk(tensor.chunk.begin(), tensor.chunk.end());
    SLABLOAD_HDF5(where, H5Pset_chunk, dcpl.get(), narrow<int>(chunk.size()), chunk.data());
    if (options_.deflate == 0) return dcpl;
    // A compressed chunk gets its place when it is written.
    SLABLOAD_HDF5(where, H5Pset_alloc_time, dcpl.get(), H5D_ALLOC_TIME_INCR);
    if (dtype_size(tensor.dtype) > 1) {
      SLABLOAD_HDF5(where, H5Pset_shuffle, dcpl.get());
      tensor.filters.push_back("shuffle");
    }
    SLABLOAD_HDF5(where, H5Pset_deflate, dcpl.get(), options_.deflate);
    tensor.filters.push_back(fmt::format("deflate({})", options_.deflate));
    return dcpl;
  }

  DatasetHandle create_dataset(const char* path, hid_t type, const Shape& shape, hid_t dcpl, const Where& where) {
    std::vector<hsize_t> lengths(shape.lengths().begin(), shape.lengths().end());
    SpaceHandle space(lengths.empty() ? SLABLOAD_HDF5(where, H5Screate, H5S_SCALAR)
                                      : SLABLOAD_HDF5(where, H5Screate_simple, narrow<int>(lengths.size()),
                                                      lengths.data(), nullptr));
    return DatasetHandle(SLABLOAD_HDF5(where, H5Dcreate2, file_.get(), path, type, space.get(), lcpl_.get(), dcpl,
                                       H5P_DEFAULT));
  }

  void add_metadata(const std::map<std::string, std::string>& metadata) {
    Where where{where_.file, kMetadata};
    std::string json;
    try {
      json = nlohmann::json(metadata).dump();
    } catch (const nlohmann::json::exception& error) {
      fail(Status::file, "{}: metadata is not UTF-8: {}", text(where), error.what());
    }
    DatasetHandle dataset = create_dataset(kMetadata, H5T_STD_U8LE, Shape{json.size()}, dcpl_.get(), where);
    SLABLOAD_HDF5(where, H5Dwrite, dataset.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, json.data());
  }

  Where where_;
  const CreateOptions& options_;
  FileHandle file_;
  PropertyHandle dcpl_;  // contiguous
  PropertyHandle lcpl_;
  std::array<TypeHandle, kDTypeCount> types_;
  std::vector<std::string> notes_;
};

}  // namespace

Dims chunk_shape(const TensorMeta& tensor, std::uint64_t bytes) {
  constexpr std::uint64_t kSmall = 4 * kKiB;
  constexpr std::uint64_t kLargest = kGiB;  // HDF5 takes less than 4 GiB, an item of ours less than 1 GiB
  const std::uint64_t element = dtype_size(tensor.dtype);
  if (tensor.shape.ndim() == 0 || tensor.bytes() < kSmall) return {};
  const std::uint64_t most = std::max<std::uint64_t>(1, std::min(bytes, kLargest - 1) / element);
  Dims chunk(tensor.shape.ndim(), 1);
  std::uint64_t row = 1;  // elements below dimension d
  for (std::size_t d = tensor.shape.ndim(); d-- > 0;) {
    chunk[d] = std::min(tensor.shape[d], std::max<std::uint64_t>(1, most / row));
    if (chunk[d] < tensor.shape[d]) break;
    row *= chunk[d];
  }
  return chunk;
}

CreatedFile create_file(const std::string& path, const TensorIndex& index, const CreateOptions& options) {
  QuietErrors quiet;
  CreatedFile out;
  out.index = index;
  TensorIndex& made = out.index;
  made.path = path;
  made.format = "hdf5";
  made.files = {CheckpointFile{path, 0, 0, 0}};
  made.skipped.clear();
  std::vector<std::string> paths = dataset_paths(index);
  Creator creator(path, options);
  creator.add_group(index.metadata);
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    TensorMeta& tensor = made.tensors[i];
    tensor.path = paths[i];
    tensor.big_endian = false;
    tensor.file = 0;
    tensor.chunk.clear();
    tensor.filters.clear();
    tensor.fill.clear();
    tensor.crc64.reset();
    creator.add_tensor(tensor);
  }
  out.notes = creator.notes();
  const auto odd = std::count_if(made.tensors.begin(), made.tensors.end(),
                                 [](const TensorMeta& tensor) { return tensor.path.substr(1) != tensor.name; });
  if (odd != 0) {
    out.notes.push_back(fmt::format("{} tensors have names that are no HDF5 paths: they lie in {}, where slabload finds them",
                                    odd, kOddNames));
  }
  if (options.keep_attributes && index.format == "hdf5") {
    for (std::string& note : copy_attributes(index, made, creator.file())) out.notes.push_back(std::move(note));
  }
  creator.close();
  made.files[0] = stat_file(path);
  return out;
}

void finish_file(const std::string& path, const TensorIndex& made, const std::vector<std::uint64_t>& crc64) {
  QuietErrors quiet;
  Where where{path};
  if (crc64.size() != made.tensors.size()) {
    fail(Status::internal, "{}: {} checksums for {} tensors", text(where), crc64.size(), made.tensors.size());
  }
  std::uint64_t size = stat_file(path).size;
  if (size < made.files[0].size) {
    fail(Status::file, "{}: was cut short while it was written, from {} to {} bytes", text(where),
         made.files[0].size, size);
  }
  FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  if (!file) fail_open(path);
  TensorIndex written;  // what a reader will find
  written.metadata = made.metadata;
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    const TensorMeta& tensor = made.tensors[i];
    Where place{path, tensor.path};
    DatasetHandle dataset(SLABLOAD_HDF5(place, H5Dopen2, file.get(), tensor.path.c_str(), H5P_DEFAULT));
    Description now = describe_dataset(dataset.get(), size, place);
    if (!now.tensor || now.tensor->dtype != tensor.dtype || !(now.tensor->shape == tensor.shape) ||
        now.tensor->offset != tensor.offset) {
      fail(Status::file, "{}: is no longer what was created: another program wrote to the file", text(place));
    }
    rewrite_number(dataset.get(), kCrc64, crc64[i], place);
    now.tensor->name = tensor.name;
    now.tensor->aliases = tensor.aliases;
    now.tensor->crc64 = crc64[i];
    written.tensors.push_back(std::move(*now.tensor));
  }
  {
    GroupHandle group(SLABLOAD_HDF5(where, H5Gopen2, file.get(), kGroup, H5P_DEFAULT));
    rewrite_number(group.get(), kIndexCrc64, index_checksum(written), where);
    rewrite_number(group.get(), kComplete, 1, where);
  }
  SLABLOAD_HDF5(where, H5Fflush, file.get(), H5F_SCOPE_GLOBAL);
  close_file(file, where);
}

}  // namespace slabload::hdf5
