// Reading the shards that `load --stage-out` left, whatever the ranks and the layout that wrote them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/host/file.h"
#include "backend/safetensors/header.h"
#include "index/tensor_index.h"
#include "layout/layout.h"
#include "layout/rank_group.h"

namespace slabload {

// What the files of one set say about all of it, in their metadata.
inline constexpr const char* kStagedSet = "slabload_set";  // the same in all files of a set, another in each set
inline constexpr const char* kStagedRank = "slabload_rank";
inline constexpr const char* kStagedRanks = "slabload_ranks";
inline constexpr const char* kStagedMesh = "slabload_mesh";
inline constexpr const char* kStagedLayout = "slabload_layout";
inline constexpr const char* kStagedRules = "slabload_rules";        // the text, if the layout is a rules file
inline constexpr const char* kStagedTensors = "slabload_tensors";    // JSON: name to global shape, aliases, ..., in order
inline constexpr const char* kStagedMetadata = "slabload_metadata";  // JSON: the checkpoint's own

// "DIR/rank-00017.safetensors".
std::string staged_path(const std::string& folder, std::uint64_t rank);

class StagedShards {
 public:
  // Reads the header of the first file that is there. `rank`: which of several equal files to prefer. Throws Status::file:
  // no such file, one that no `load --stage-out` of this version wrote.
  StagedShards(std::string folder, std::uint64_t rank);

  // The tensors as the ranks held them, whole, in their order; no offsets.
  const TensorIndex& index() const { return index_; }
  const Layout& layout() const { return *layout_; }
  // What load this set is of: the same text in all of its files.
  const std::string& set() const { return set_; }

  // Reads a box of tensor `number` of the index, densely, to `out`. Throws Status::file naming file, tensor and box: a file
  // that is not visible here, is of another set, or does not hold what it should.
  void read(std::size_t number, const Box& box, std::byte* out);

  std::uint64_t bytes_read() const { return bytes_; }

 private:
  struct OpenFile {
    host::File file;
    safetensors::SafetensorsHeader header;
    std::unordered_map<std::string, const safetensors::HeaderTensor*> tensors;
  };
  OpenFile& file_of(std::uint64_t rank, bool must_be_there);
  OpenFile& owner_of(const RankGroup& owners, std::uint64_t* rank);
  void read_part(std::size_t number, const Box& piece, const Box& box, std::uint64_t owner, OpenFile& file, std::byte* out);

  std::string folder_;
  std::uint64_t rank_;
  std::string set_;
  TensorIndex index_;
  std::unique_ptr<Layout> layout_;
  std::vector<TensorLayout> resolved_;
  std::map<std::uint64_t, std::unique_ptr<OpenFile>> open_;  // by rank; nullptr: not visible here
  std::vector<std::byte> buffer_;
  std::uint64_t bytes_ = 0;
};

}  // namespace slabload
