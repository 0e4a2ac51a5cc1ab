// Writing a new HDF5 checkpoint in parallel.
#pragma once

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "backend/control.h"
#include "backend/hdf5/chunk_writer.h"
#include "backend/hdf5/create.h"
#include "backend/host/file.h"
#include "backend/sink.h"

namespace slabload {

struct Hdf5SinkOptions : hdf5::CreateOptions {
  bool reread = false;  // before the rename, what was written is read again and compared; compressed tensors always are
};

class Hdf5Sink final : public CheckpointSink {
 public:
  // Writes to `<target>.slabload-tmp-<host and pid of rank 0>` and renames it over the target at the end. With
  // `replace_existing` false a target that exists is refused, at create and again at commit. `control` and `comm` must
  // outlive the object; nothing happens before create(). Chunked tensors are written through MPI-IO on `comm`, which has
  // the ranks of `control`; without any it may be null.
  Hdf5Sink(std::string target, Control& control, bool replace_existing, Hdf5SinkOptions options = {},
           MPI_Comm comm = MPI_COMM_NULL);
  ~Hdf5Sink() override;

  void create(const TensorIndex& index) override;
  void write(std::size_t tensor, FlatRange range, const void* data) override;
  void write_extent(std::size_t first, std::size_t last, std::uint64_t offset, std::uint64_t bytes,
                    const void* data) override;
  bool collective(std::size_t tensor) const override { return made_.tensors[tensor].filtered(); }
  void write_together(std::size_t tensor, const Box* box, const void* data) override;
  void commit(const std::vector<std::uint64_t>& crc64) override;
  void abandon() noexcept override;
  void abandon_alone() noexcept override;
  const TensorIndex& made() const override { return made_; }
  std::vector<std::string> notes() const override { return notes_; }
  const std::string& temporary() const { return temporary_; }

 private:
  void refuse_existing() const;
  void note_stale_files();
  std::string create_temporary(const TensorIndex& index);
  void write_bytes(std::uint64_t offset, std::uint64_t bytes, const void* data, const TensorMeta& tensor);
  void sync_writes();
  void reread(const std::vector<std::uint64_t>& crc64);

  std::string target_;
  Control& control_;
  bool replace_existing_;
  std::string temporary_;
  bool owner_ = false;  // this rank created the temporary file and has to remove it
  Hdf5SinkOptions options_;
  MPI_Comm comm_;
  host::File file_;
  std::optional<hdf5::ChunkWriter> chunks_;
  std::vector<std::string> notes_;
  TensorIndex made_;
};

}  // namespace slabload
