// Reading the tensors of one HDF5 file.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/hdf5/chunk_reader.h"
#include "backend/hdf5/handle.h"
#include "backend/mpi/control.h"
#include "backend/storage.h"

namespace slabload {

class Hdf5Storage final : public Storage {
 public:
  enum class Transfer {
    independent,  // MPI-IO driver, each rank on its own
    collective,   // MPI-IO driver, all ranks in each call
    direct        // checked pread of contiguous tensors, no MPI-IO
  };
  using Hints = std::vector<std::pair<std::string, std::string>>;

  // Opens the file of `index`, on every rank of `comm` (of which it uses a duplicate). Collective; every rank
  // returns or every rank throws the same error: Status::file if a rank sees another file than the index
  // describes. `hints` are MPI-IO info keys. The object must be destroyed before MPI_Finalize, on all ranks.
  Hdf5Storage(const TensorIndex& index, Transfer transfer, MPI_Comm comm, const Hints& hints = {});
  // For one process without MPI: everything by HDF5's serial driver.
  explicit Hdf5Storage(const TensorIndex& index);
  ~Hdf5Storage() override;

  void read(const TensorMeta& tensor, const Box& box, void* out) override;
  void read_extent(const TensorMeta& first, const TensorMeta& last, std::uint64_t offset, std::uint64_t bytes,
                   void* out) override;
  void read_collective(const TensorMeta& tensor, const Box* box, void* out) override;
  bool collective(const TensorMeta& tensor) const override;
  void check_unchanged() override;
  void abandon() noexcept override;
  StorageCounters counters() const override { return counters_; }
  // "independent, ROMIO 321", "direct, pread", "serial". In collective mode also what the library did of it.
  std::string description() const override;

  // How often this rank opened a dataset; each costs metadata reads.
  std::uint64_t datasets_opened() const { return datasets_opened_; }
  // H5Pget_mpio_no_collective_cause over this rank's collective reads, local and global, or-ed; 0 if none.
  std::uint32_t no_collective_cause() const { return no_collective_cause_; }
  // H5Pget_mpio_actual_io_mode of the same reads, or-ed.
  unsigned actual_io_mode() const { return actual_io_mode_; }

 private:
  struct OpenDataset {
    hdf5::DatasetHandle dataset;
    hdf5::TypeHandle type;  // the file's own: no conversion takes place
    hdf5::SpaceHandle space;
    std::optional<host::ChunkFilters> filters;  // those that are undone here
  };
  // A file by one driver, and the datasets opened in it.
  struct OpenFile {
    hdf5::FileHandle file;
    std::unordered_map<std::string, OpenDataset> datasets;
  };
  class FileDescriptor;

  void open_mpio(MPI_Comm comm, const Hints& hints);
  bool uses_mpio(const TensorMeta& tensor) const;
  OpenFile& file_for(const TensorMeta& tensor);
  const OpenDataset& dataset_for(const TensorMeta& tensor);
  void read_filtered(const TensorMeta& tensor, const Box& box, std::byte* out);
  void transfer(const TensorMeta& tensor, const Box* box, void* out, hid_t dxpl);
  void read_direct(const TensorMeta& tensor, const Box& box, void* out);
  void check_box(const TensorMeta& tensor, const Box& box) const;
  void count(const TensorMeta& tensor, const Box& box);
  std::string place(const TensorMeta& tensor, const Box* box) const;

  CheckpointFile then_;  // the file as it was when the index was made
  Transfer transfer_ = Transfer::independent;
  std::unique_ptr<mpi::MpiControl> control_;  // none: one process without MPI
  OpenFile mpio_;
  OpenFile serial_;
  std::unique_ptr<FileDescriptor> direct_;
  hdf5::ChunkReader chunks_;
  hdf5::PropertyHandle collective_dxpl_;
  std::string component_;
  StorageCounters counters_;
  std::uint64_t datasets_opened_ = 0;
  std::uint32_t no_collective_cause_ = 0;
  unsigned actual_io_mode_ = 0;
};

}  // namespace slabload
