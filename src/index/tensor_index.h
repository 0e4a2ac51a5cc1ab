// What a checkpoint holds and where its bytes lie. Made by one rank from the file (backend/*/…_index), sent
// to all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace slabload {

// How a tensor's bytes are stored.
enum class StorageKind : std::uint8_t {
  contiguous,     // one run of bytes at a known file offset
  chunked,        // HDF5 chunks, every one of them allocated
  chunked_holes,  // HDF5 chunks, some never written: those read as the fill value
  compact,        // inside the HDF5 object header
  fill            // never written: every element is the fill value, nothing is in the file
};
std::string_view storage_name(StorageKind kind);

struct TensorMeta {
  std::string name;                  // what users select and reports print
  std::vector<std::string> aliases;  // further names of the same tensor (HDF5 hard and soft links), sorted
  std::string path;                  // HDF5: the dataset's path; safetensors: the name in the header
  DType dtype = DType::f32;
  Shape shape;
  bool big_endian = false;  // bytes in the file are big-endian
  StorageKind storage = StorageKind::contiguous;
  std::uint32_t file = 0;            // which of TensorIndex::files
  std::uint64_t offset = 0;          // contiguous: absolute file offset of element 0, user block included
  std::uint64_t stored_bytes = 0;    // bytes in the file (compressed size for filtered chunks)
  Dims chunk;                        // chunked: the chunk shape
  std::vector<std::string> filters;  // chunked: filter names in pipeline order ("shuffle", "deflate(6)")
  std::vector<unsigned char> fill;   // one element in file byte order, for `fill`; empty means zeros
  std::optional<std::uint64_t>
      crc64;  // CRC-64/XZ of all elements in file order, little-endian (see base/crc64.h)

  std::uint64_t elements() const { return shape.elements(); }
  std::uint64_t bytes() const { return elements() * dtype_size(dtype); }
  bool filtered() const { return !filters.empty(); }
  bool chunked() const { return storage == StorageKind::chunked || storage == StorageKind::chunked_holes; }
};

// One file of a checkpoint, as it was when the index was made.
struct CheckpointFile {
  std::string path;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
};

// What the file's own checksum says of the index (see index_checksum.h).
enum class IndexProof : std::uint8_t {
  none,   // the file has no such checksum
  right,  // it holds
  wrong   // it does not, and the caller asked to take the index all the same
};

// Something in the file that can't be a tensor, and why.
struct SkippedObject {
  std::string name;
  std::string reason;  // "damaged: ..." of what was a tensor once

  bool damaged() const { return reason.starts_with("damaged"); }
};

struct TensorIndex {
  std::string path;    // as the user gave it
  std::string format;  // "hdf5", "safetensors", "table"
  std::vector<CheckpointFile> files;
  std::vector<TensorMeta> tensors;  // in file order: by file, then offset, then name
  std::vector<SkippedObject> skipped;
  std::map<std::string, std::string> metadata;  // safetensors __metadata__, slabload's own attributes
  std::uint64_t metadata_bytes =
      0;  // bytes of everything that is not tensor data (headers, object headers, padding)

  IndexProof proof = IndexProof::none;

  std::uint64_t total_bytes() const;
  // The tensor of that name or alias, or nothing.
  const TensorMeta* find(const std::string& name) const;
};

// A byte string that rebuilds the index on another rank; from_bytes throws Status::internal on anything
// malformed.
std::string to_bytes(const TensorIndex& index);
TensorIndex index_from_bytes(std::string_view bytes);

// The same tensors as a checkpoint that is yet to be written holds them: little-endian, contiguous, without places or
// checksums.
TensorIndex plain_index(TensorIndex index);

// Puts tensors in the order that reading wants: by file, offset, name.
void sort_for_reading(TensorIndex& index);

}  // namespace slabload
