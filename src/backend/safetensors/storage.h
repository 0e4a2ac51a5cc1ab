// Reading tensor bytes from safetensors files.
#pragma once

#include <vector>

#include "backend/host/file.h"
#include "backend/storage.h"

namespace slabload {

class SafetensorsStorage final : public Storage {
 public:
  // Keeps the list of files; opens each at its first read, and refuses it if it has changed since the index
  // was made.
  explicit SafetensorsStorage(const TensorIndex& index);

  void read(const TensorMeta& tensor, const Box& box, void* out) override;
  void read_extent(const TensorMeta& first, const TensorMeta& last, std::uint64_t offset, std::uint64_t bytes,
                   void* out) override;
  void read_collective(const TensorMeta& tensor, const Box* box, void* out) override;
  bool collective(const TensorMeta&) const override { return false; }
  void check_unchanged() override;
  StorageCounters counters() const override { return counters_; }
  std::string description() const override { return "pread"; }

 private:
  const host::File& file(std::uint32_t number);

  std::vector<CheckpointFile> files_;
  std::vector<host::File> open_;  // one per file, opened or not
  std::vector<bool> used_;        // files that this rank has read from
  std::size_t open_count_ = 0;
  StorageCounters counters_;
};

}  // namespace slabload
