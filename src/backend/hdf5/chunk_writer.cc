#include "backend/hdf5/chunk_writer.h"

#include <sys/statvfs.h>

#include <new>

#include "backend/hdf5/mpio.h"
#include "base/narrow.h"

namespace slabload::hdf5 {
namespace {

constexpr std::uint64_t kFlushEvery = 256;  // collective writes: of rounds of 64 MiB, a few megabytes of metadata

// MPI-IO does not pass on why a write failed.
std::string room_left(const std::string& path) {
  struct statvfs space {};
  if (statvfs(path.c_str(), &space) != 0) return "";
  const std::uint64_t bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  constexpr std::uint64_t kFull = 16 << 20;
  return bytes >= kFull ? "" : fmt::format(" (No space left? {} bytes are free there)", bytes);
}

}  // namespace

ChunkWriter::ChunkWriter(std::string path, MPI_Comm comm) : path_(std::move(path)) {
  QuietErrors quiet;
  file_ = open_mpio(path_, comm, {}, MpioAccess::write);
  Where where{path_};
  together_ = PropertyHandle(SLABLOAD_HDF5(where, H5Pcreate, H5P_DATASET_XFER));
  SLABLOAD_HDF5(where, H5Pset_dxpl_mpio, together_.get(), H5FD_MPIO_COLLECTIVE);
}

// All ranks open all datasets that are written together in the same order; the others each as it needs them.
const ChunkWriter::OpenDataset& ChunkWriter::dataset_for(const TensorMeta& tensor) {
  if (auto found = datasets_.find(tensor.path); found != datasets_.end()) return found->second;
  Where where{path_, tensor.path};
  OpenDataset open;
  open.dataset = DatasetHandle(SLABLOAD_HDF5(where, H5Dopen2, file_.get(), tensor.path.c_str(), H5P_DEFAULT));
  open.type = TypeHandle(SLABLOAD_HDF5(where, H5Dget_type, open.dataset.get()));
  open.space = SpaceHandle(SLABLOAD_HDF5(where, H5Dget_space, open.dataset.get()));
  return datasets_.emplace(tensor.path, std::move(open)).first->second;
}

void ChunkWriter::write(const TensorMeta& tensor, const Box* box, const void* data) {
  QuietErrors quiet;
  Where where{path_, tensor.path};
  const OpenDataset& open = dataset_for(tensor);
  SpaceHandle in_file(SLABLOAD_HDF5(where, H5Scopy, open.space.get()));
  std::vector<hsize_t> ones(tensor.shape.ndim(), 1);
  std::vector<hsize_t> extent = ones;
  if (box != nullptr) {
    std::vector<hsize_t> start(box->start.begin(), box->start.end());
    extent.assign(box->extent.begin(), box->extent.end());
    SLABLOAD_HDF5(where, H5Sselect_hyperslab, in_file.get(), H5S_SELECT_SET, start.data(), nullptr, ones.data(),
                  extent.data());
  }
  SpaceHandle in_memory(
      SLABLOAD_HDF5(where, H5Screate_simple, narrow<int>(extent.size()), extent.data(), nullptr));
  const std::uint64_t spare = 0;  // the library wants an address even for nothing
  if (box == nullptr) {
    SLABLOAD_HDF5(where, H5Sselect_none, in_file.get());
    SLABLOAD_HDF5(where, H5Sselect_none, in_memory.get());
    data = &spare;
  }
  const hid_t how = tensor.filtered() ? together_.get() : H5P_DEFAULT;
  if (H5Dwrite(open.dataset.get(), open.type.get(), in_memory.get(), in_file.get(), how, data) < 0) {
    fail(Status::file, "file '{}': tensor '{}' {}: cannot be written: {}{}", printable(path_), printable(tensor.name),
         box == nullptr ? "(nothing)" : box->text(), innermost_error(), room_left(path_));
  }
  // Dirty metadata must not grow to where the library flushes by itself (see open_mpio).
  if (tensor.filtered() && ++unflushed_ == kFlushEvery) {
    unflushed_ = 0;
    SLABLOAD_HDF5(where, H5Fflush, file_.get(), H5F_SCOPE_LOCAL);
  }
}

void ChunkWriter::close() {
  QuietErrors quiet;
  datasets_.clear();
  together_.reset();
  close_file(file_, {path_});
}

void ChunkWriter::abandon() noexcept {
  // H5Fclose is collective here. What is moved away on purpose is never closed.
  struct Kept {
    FileHandle file;
    std::unordered_map<std::string, OpenDataset> datasets;
  };
  new (std::nothrow) Kept{std::move(file_), std::move(datasets_)};
}

}  // namespace slabload::hdf5
