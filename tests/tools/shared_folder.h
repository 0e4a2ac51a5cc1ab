// A fresh folder that all ranks use, removed when the last of them has left it.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "fakes/temp_folder.h"

namespace slabload::testing {

class SharedFolder {
 public:
  // Both are collective over MPI_COMM_WORLD.
  SharedFolder() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    char path[512] = {};
    if (rank_ == 0) {
      folder_ = std::make_unique<TempFolder>();
      folder_->path().copy(path, sizeof path - 1);
    }
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = path;
  }
  ~SharedFolder() { MPI_Barrier(MPI_COMM_WORLD); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  int rank() const { return rank_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // What `make` returns on rank 0, run there alone; a default value elsewhere. Collective: all have to pass.
  template <typename Make>
  auto on_rank_0(Make&& make) {
    decltype(make()) out{};
    if (rank_ == 0) out = make();
    MPI_Barrier(MPI_COMM_WORLD);
    return out;
  }

 private:
  int rank_ = 0;
  std::unique_ptr<TempFolder> folder_;
  std::string path_;
};

}  // namespace slabload::testing
