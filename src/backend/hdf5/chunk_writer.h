// Writing chunked datasets of a new file from all ranks.
#pragma once

#include <mpi.h>

#include <string>
#include <unordered_map>

#include "backend/hdf5/handle.h"
#include "index/tensor_index.h"
#include "tensor/box.h"

namespace slabload::hdf5 {

// Compressed chunks get their place in the file as they are written, which the library only does in collective calls; plain
// chunks have theirs already.
class ChunkWriter {
 public:
  // Opens the file for writing by the MPI-IO driver. Collective over comm, which must live as long. Throws Status::file.
  ChunkWriter(std::string path, MPI_Comm comm);

  // Writes `box` of the tensor from `data`, which holds it densely in the file's own type. A filtered tensor: collective, in
  // whole chunks, nullptr for a rank without any. Throws Status::file naming tensor and box.
  void write(const TensorMeta& tensor, const Box* box, const void* data);

  // Collective. What the library held back is written here.
  void close();

  // Lets go of the file without closing it, for the others will not come.
  void abandon() noexcept;

 private:
  struct OpenDataset {
    DatasetHandle dataset;
    TypeHandle type;
    SpaceHandle space;
  };
  const OpenDataset& dataset_for(const TensorMeta& tensor);

  std::string path_;
  FileHandle file_;
  PropertyHandle together_;
  std::uint64_t unflushed_ = 0;  // collective writes since the last flush
  std::unordered_map<std::string, OpenDataset> datasets_;
};

}  // namespace slabload::hdf5
