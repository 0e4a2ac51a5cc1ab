// Writing a new HDF5 checkpoint in parallel.
#pragma once

#include <string>
#include <vector>

#include "backend/control.h"
#include "backend/host/file.h"
#include "backend/sink.h"

namespace slabload {

class Hdf5Sink final : public CheckpointSink {
 public:
  // Writes to `<target>.slabload-tmp-<pid of rank 0>` and renames it over the target at the end. With
  // `replace_existing` false a target that exists is refused, at create and again at commit. `control` must
  // outlive the object; nothing happens before create().
  Hdf5Sink(std::string target, Control& control, bool replace_existing);
  ~Hdf5Sink() override;

  void create(const TensorIndex& index) override;
  void write(std::size_t tensor, FlatRange range, const void* data) override;
  void commit(const std::vector<std::uint64_t>& crc64) override;
  void abandon() noexcept override;

  // The file as created: the tensors of the index in its order, with their offsets. Valid after create().
  const TensorIndex& made() const { return made_; }
  const std::string& temporary() const { return temporary_; }

 private:
  void refuse_existing() const;
  std::string create_temporary(const TensorIndex& index);

  std::string target_;
  Control& control_;
  bool replace_existing_;
  std::string temporary_;
  bool owner_ = false;  // this rank created the temporary file and has to remove it
  host::File file_;
  TensorIndex made_;
};

}  // namespace slabload
