#include "backend/hdf5/reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "backend/hdf5/fill.h"
#include "backend/hdf5/mpio.h"
#include "backend/hdf5/open_file.h"
#include "base/bytes.h"
#include "base/narrow.h"
#include "base/stopwatch.h"

namespace slabload {

using namespace hdf5;

namespace {

// Datasets kept open at a time; beyond it all are closed, at the same call on every rank.
constexpr std::size_t kMostOpen = 512;

const CheckpointFile& only_file(const TensorIndex& index) {
  if (index.format != "hdf5" || index.files.size() != 1) {
    fail(Status::internal, "checkpoint '{}' is not one HDF5 file", printable(index.path));
  }
  return index.files[0];
}

}  // namespace

class Hdf5Storage::FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail(Status::file, "file '{}': cannot be opened: {}", printable(path), errno_text(errno));
  }
  ~FileDescriptor() { close(fd_); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  // Returns the reason if not all bytes came.
  std::string read(std::byte* out, std::uint64_t bytes, std::uint64_t offset) const {
    while (bytes > 0) {
      ssize_t got = pread(fd_, out, bytes, narrow<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fmt::format("read at byte {} failed: {}", offset, errno_text(errno));
      if (got == 0) return fmt::format("the file ends at byte {}: it was cut short", offset);
      out += got;
      bytes -= static_cast<std::uint64_t>(got);
      offset += static_cast<std::uint64_t>(got);
    }
    return {};
  }

 private:
  int fd_;
};

Hdf5Storage::Hdf5Storage(const TensorIndex& index, Transfer transfer, MPI_Comm comm, const Hints& hints)
    : then_(only_file(index)), transfer_(transfer), control_(std::make_unique<mpi::MpiControl>(comm)) {
  QuietErrors quiet;
  // Before the collective open, in which one rank's failure would leave the others waiting.
  together(*control_, [&] {
    check_same(then_);
    if (transfer_ == Transfer::direct) direct_ = std::make_unique<FileDescriptor>(then_.path);
  });
  if (transfer_ != Transfer::direct) together(*control_, [&] { open_mpio(comm, hints); });
}

Hdf5Storage::Hdf5Storage(const TensorIndex& index) : then_(only_file(index)) {
  QuietErrors quiet;
  check_same(then_);
  serial_.file = open_serial(then_.path);
}

Hdf5Storage::~Hdf5Storage() {
  QuietErrors quiet;
  for (OpenFile* file : {&mpio_, &serial_}) {
    file->datasets.clear();
    file->file.reset();
  }
}

void Hdf5Storage::open_mpio(MPI_Comm comm, const Hints& hints) {
  mpio_.file = hdf5::open_mpio(then_.path, comm, hints);
  component_ = mpio_component(mpio_.file.get());
  if (transfer_ != Transfer::collective) return;
  Where where{then_.path};
  collective_dxpl_ = PropertyHandle(SLABLOAD_HDF5(where, H5Pcreate, H5P_DATASET_XFER));
  SLABLOAD_HDF5(where, H5Pset_dxpl_mpio, collective_dxpl_.get(), H5FD_MPIO_COLLECTIVE);
}

bool Hdf5Storage::uses_mpio(const TensorMeta& tensor) const {
  if (!control_ || transfer_ == Transfer::direct) return false;
  // MPI-IO fails on chunks that are not there; compact data comes with the metadata.
  return tensor.storage == StorageKind::contiguous || tensor.storage == StorageKind::chunked;
}

bool Hdf5Storage::collective(const TensorMeta& tensor) const {
  // Of a filtered chunk one rank needs it all: there is nothing to gather.
  return transfer_ == Transfer::collective && uses_mpio(tensor) && !tensor.filtered();
}

Hdf5Storage::OpenFile& Hdf5Storage::file_for(const TensorMeta& tensor) {
  if (uses_mpio(tensor)) return mpio_;
  if (!serial_.file) serial_.file = open_serial(then_.path);
  return serial_;
}

const Hdf5Storage::OpenDataset& Hdf5Storage::dataset_for(const TensorMeta& tensor) {
  OpenFile& file = file_for(tensor);
  if (auto found = file.datasets.find(tensor.path); found != file.datasets.end()) return found->second;
  if (file.datasets.size() >= kMostOpen) file.datasets.clear();
  ScopedTimer timer(counters_.open_s);
  Where where{then_.path, tensor.path};
  OpenDataset open;
  open.dataset =
      DatasetHandle(SLABLOAD_HDF5(where, H5Dopen2, file.file.get(), tensor.path.c_str(), H5P_DEFAULT));
  open.type = TypeHandle(SLABLOAD_HDF5(where, H5Dget_type, open.dataset.get()));
  open.space = SpaceHandle(SLABLOAD_HDF5(where, H5Dget_space, open.dataset.get()));
  if (tensor.filtered()) open.filters = filters_of(open.dataset.get(), tensor, where);
  ++datasets_opened_;
  int ndim = SLABLOAD_HDF5(where, H5Sget_simple_extent_ndims, open.space.get());
  std::vector<hsize_t> lengths(H5S_MAX_RANK);
  SLABLOAD_HDF5(where, H5Sget_simple_extent_dims, open.space.get(), lengths.data(), nullptr);
  lengths.resize(static_cast<std::size_t>(ndim));
  // A mismatch would overrun the caller's memory.
  if (H5Tget_size(open.type.get()) != dtype_size(tensor.dtype) ||
      !std::equal(lengths.begin(), lengths.end(), tensor.shape.lengths().begin(),
                  tensor.shape.lengths().end())) {
    fail(Status::file, "{}: shape or datatype is not that of the index: the file was changed", text(where));
  }
  return file.datasets.emplace(tensor.path, std::move(open)).first->second;
}

std::string Hdf5Storage::place(const TensorMeta& tensor, const Box* box) const {
  return fmt::format("file '{}': tensor '{}' {}", printable(then_.path), printable(tensor.name),
                     box == nullptr ? "(nothing)" : box->text());
}

void Hdf5Storage::check_box(const TensorMeta& tensor, const Box& box) const {
  bool inside = box.ndim() == tensor.shape.ndim() && box.extent.size() == box.ndim() && !box.empty();
  for (std::size_t d = 0; inside && d < box.ndim(); ++d) {
    inside = box.extent[d] <= tensor.shape[d] && box.start[d] <= tensor.shape[d] - box.extent[d];
  }
  if (!inside)
    fail(Status::internal, "{}: the box is not within shape {}", place(tensor, &box), tensor.shape.text());
  if (box.elements() * dtype_size(tensor.dtype) >= kGiB) {
    fail(Status::internal, "{}: a read of 1 GiB or more in one call", place(tensor, &box));
  }
  if (tensor.storage == StorageKind::contiguous) {
    std::uint64_t end = 0;
    // Below MPI-IO a read past the end gives zeros and no error.
    if (!checked_add(tensor.offset, tensor.bytes(), &end) || end > then_.size) {
      fail(Status::file, "{}: the tensor ends at byte {}, the file at byte {}", place(tensor, &box), end,
           then_.size);
    }
  }
}

void Hdf5Storage::count(const TensorMeta& tensor, const Box& box) {
  ++counters_.requests;
  if (!tensor.filtered()) {
    counters_.bytes += box.elements() * dtype_size(tensor.dtype);
    return;
  }
  std::uint64_t touched = 1;
  std::uint64_t all = 1;
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    touched *= (box.start[d] + box.extent[d] - 1) / tensor.chunk[d] - box.start[d] / tensor.chunk[d] + 1;
    all *= ceil_div(tensor.shape[d], tensor.chunk[d]);
  }
  counters_.bytes += scale(tensor.stored_bytes, touched, all);
}

void Hdf5Storage::read(const TensorMeta& tensor, const Box& box, void* out) {
  check_box(tensor, box);
  if (tensor.storage == StorageKind::fill) {
    repeat_element(tensor, box.elements(), static_cast<std::byte*>(out));
  } else if (transfer_ == Transfer::direct && tensor.storage == StorageKind::contiguous) {
    read_direct(tensor, box, out);
  } else if (tensor.filtered()) {
    read_filtered(tensor, box, static_cast<std::byte*>(out));
    count(tensor, box);
  } else {
    transfer(tensor, &box, out, H5P_DEFAULT);
    count(tensor, box);
  }
}

void Hdf5Storage::read_extent(const TensorMeta& first, const TensorMeta& last, std::uint64_t offset,
                              std::uint64_t bytes, void* out) {
  const std::string where = fmt::format("file '{}': tensors '{}' to '{}'", printable(then_.path),
                                        printable(first.name), printable(last.name));
  std::uint64_t end = 0;
  if (bytes >= kGiB) fail(Status::internal, "{}: a read of 1 GiB or more in one call", where);
  if (!checked_add(offset, bytes, &end) || end > then_.size)
    fail(Status::file, "{}: they end at byte {}, the file at byte {}", where, end, then_.size);
  std::string reason;
  if (uses_mpio(first)) {
    QuietErrors quiet;
    reason = read_mpio(mpio_.file.get(), offset, bytes, out);
  } else {
    if (!direct_) direct_ = std::make_unique<FileDescriptor>(then_.path);
    reason = direct_->read(static_cast<std::byte*>(out), bytes, offset);
  }
  if (!reason.empty()) fail(Status::file, "{}: cannot be read: {}", where, reason);
  counters_.bytes += bytes;
  ++counters_.requests;
}

void Hdf5Storage::read_collective(const TensorMeta& tensor, const Box* box, void* out) {
  if (!collective(tensor)) {
    if (box != nullptr) read(tensor, *box, out);
    return;
  }
  if (box != nullptr) check_box(tensor, *box);
  transfer(tensor, box, out, collective_dxpl_.get());
  if (box != nullptr) count(tensor, *box);
  QuietErrors quiet;
  H5D_mpio_actual_io_mode_t mode = H5D_MPIO_NO_COLLECTIVE;
  std::uint32_t local = 0;
  std::uint32_t global = 0;
  if (H5Pget_mpio_actual_io_mode(collective_dxpl_.get(), &mode) >= 0)
    actual_io_mode_ |= static_cast<unsigned>(mode);
  if (H5Pget_mpio_no_collective_cause(collective_dxpl_.get(), &local, &global) >= 0) {
    no_collective_cause_ |= local | global;
  }
}

void Hdf5Storage::transfer(const TensorMeta& tensor, const Box* box, void* out, hid_t dxpl) {
  QuietErrors quiet;
  Where where{then_.path, tensor.path};
  const OpenDataset& open = dataset_for(tensor);
  SpaceHandle from(SLABLOAD_HDF5(where, H5Scopy, open.space.get()));
  SpaceHandle to;
  // The memory space has the file's number of dimensions: a one-dimensional one is far slower for chunked
  // data.
  if (tensor.shape.ndim() == 0) {
    to = SpaceHandle(SLABLOAD_HDF5(where, H5Screate, H5S_SCALAR));
  } else {
    std::vector<hsize_t> ones(tensor.shape.ndim(), 1);
    std::vector<hsize_t> extent = ones;
    if (box != nullptr) {
      std::vector<hsize_t> start(box->start.begin(), box->start.end());
      extent.assign(box->extent.begin(), box->extent.end());
      SLABLOAD_HDF5(where, H5Sselect_hyperslab, from.get(), H5S_SELECT_SET, start.data(), nullptr,
                    ones.data(), extent.data());
    }
    to = SpaceHandle(
        SLABLOAD_HDF5(where, H5Screate_simple, narrow<int>(extent.size()), extent.data(), nullptr));
  }
  std::uint64_t spare = 0;  // the library wants an address even for nothing
  if (box == nullptr) {
    SLABLOAD_HDF5(where, H5Sselect_none, from.get());
    SLABLOAD_HDF5(where, H5Sselect_none, to.get());
    out = &spare;
  }
  if (H5Dread(open.dataset.get(), open.type.get(), to.get(), from.get(), dxpl, out) < 0) {
    fail(Status::file, "{}: cannot be read: {}", place(tensor, box), innermost_error());
  }
}

void Hdf5Storage::read_filtered(const TensorMeta& tensor, const Box& box, std::byte* out) {
  const OpenDataset& open = dataset_for(tensor);
  if (!open.filters) {
    transfer(tensor, &box, out, H5P_DEFAULT);
    return;
  }
  QuietErrors quiet;
  const std::string reason =
      chunks_.read(open.dataset.get(), {then_.path, tensor.path}, tensor, *open.filters, box, out,
                   [&](const Box& part, std::byte* to) { transfer(tensor, &part, to, H5P_DEFAULT); });
  if (!reason.empty()) fail(Status::file, "{}: cannot be read: {}", place(tensor, &box), reason);
}

void Hdf5Storage::read_direct(const TensorMeta& tensor, const Box& box, void* out) {
  std::uint64_t size = dtype_size(tensor.dtype);
  auto* to = static_cast<std::byte*>(out);
  for_each_run(tensor.shape, box, [&](std::uint64_t begin, std::uint64_t length) {
    std::string reason = direct_->read(to, length * size, tensor.offset + begin * size);
    if (!reason.empty()) fail(Status::file, "{}: {}", place(tensor, &box), reason);
    to += length * size;
    counters_.bytes += length * size;
    ++counters_.requests;
  });
}

void Hdf5Storage::check_unchanged() {
  check_same(then_);
}

void Hdf5Storage::abandon() noexcept {
  // H5Fclose is collective here. What is moved away on purpose is never closed.
  new (std::nothrow) OpenFile(std::move(mpio_));
}

std::string Hdf5Storage::description() const {
  if (!control_) return "serial";
  if (transfer_ == Transfer::direct) return "direct, pread";
  if (transfer_ == Transfer::independent) return "independent, " + component_;
  std::string out = "collective, " + component_;
  if (no_collective_cause_ != 0) {
    out +=
        fmt::format(", broken to independent (H5Pget_mpio_no_collective_cause {:#x})", no_collective_cause_);
  }
  return out;
}

}  // namespace slabload
