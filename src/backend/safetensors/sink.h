// Writing a folder of safetensors files in parallel.
#pragma once

#include <string>
#include <vector>

#include "backend/control.h"
#include "backend/host/file.h"
#include "backend/safetensors/file_set.h"
#include "backend/sink.h"

namespace slabload {

// The files are made in `<folder>.slabload-tmp-<pid of rank 0>`, which gets the folder's name when all of them are on the
// disk: under that name there is never anything but a whole set.
class SafetensorsSink final : public CheckpointSink {
 public:
  // `max_file_bytes` as for split_into_files. What exists under the name of `folder` is refused, at create and again at
  // commit; with `replace_existing` a folder is replaced if it holds nothing but an earlier set, so that no other file
  // is ever lost. `control` must outlive the object; nothing happens before create().
  SafetensorsSink(std::string folder, Control& control, std::uint64_t max_file_bytes, bool replace_existing);
  ~SafetensorsSink() override;

  void create(const TensorIndex& index) override;
  // Keeps one file open at a time: cheapest in the order of the index.
  void write(std::size_t tensor, FlatRange range, const void* data) override;
  // The tensors have no offsets in one file, and none is compressed.
  void write_extent(std::size_t, std::size_t, std::uint64_t, std::uint64_t, const void*) override;
  void write_together(std::size_t, const Box*, const void*) override;
  // The format has no place for the checksums.
  void commit(const std::vector<std::uint64_t>& crc64) override;
  void abandon() noexcept override;

  // The files as planned. Valid after create().
  const safetensors::FileSet& files() const { return set_; }
  const TensorIndex& made() const override { return index_; }

 private:
  std::string path_of(const std::string& name) const { return temporary_ + "/" + name; }
  void check_target() const;
  void make_folder();
  void make_files();
  void use_file(std::uint32_t number);
  void close_file();
  void rename_over_target();

  std::string target_;
  Control& control_;
  std::uint64_t max_file_bytes_;
  bool replace_existing_;
  std::string temporary_;
  bool owner_ = false;  // this rank made the temporary folder and has to remove it
  TensorIndex index_;
  safetensors::FileSet set_;
  std::uint32_t open_number_ = 0;  // of the file that is open
  host::File open_;
};

}  // namespace slabload
