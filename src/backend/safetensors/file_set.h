// How a checkpoint's tensors are spread over safetensors files, before any of them is written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "index/tensor_index.h"

namespace slabload::safetensors {

struct PlannedFile {
  std::string name;    // "model.safetensors", or "model-00001-of-00003.safetensors"
  std::string header;  // length, JSON and padding: what the file begins with
  std::uint64_t size = 0;
};

struct TensorPlace {
  std::uint32_t file = 0;    // which of FileSet::files
  std::uint64_t offset = 0;  // of its first byte in that file
};

struct FileSet {
  std::vector<PlannedFile> files;
  std::vector<TensorPlace> places;  // of the index's tensors, in its order
};

inline constexpr const char* kIndexName = "model.safetensors.index.json";

// Fills one file after the other in the index's order, as Hugging Face's libraries do: none exceeds `max_file_bytes`, its
// header included, but one that holds a single tensor. All in one file if that suffices. Within a file the widest
// elements come first, so that all are aligned. Every file has the metadata. Pure, and the same on every rank. Throws
// Status::file naming `target` and the tensor that the format cannot hold.
FileSet split_into_files(const TensorIndex& index, std::uint64_t max_file_bytes, const std::string& target);

// The text of the index file: which tensor is where, and the bytes of all.
std::string index_text(const TensorIndex& index, const FileSet& set);

// What goes into each header: the metadata that is UTF-8; "format": "pt" unless there is one, which transformers wants;
// and each further name of a tensor with the name it is stored under, as safetensors' save_model has it.
std::map<std::string, std::string> header_metadata(const TensorIndex& index);
// The keys of the index's metadata that are left out there.
std::vector<std::string> metadata_left_out(const TensorIndex& index);

// True for the names that a FileSet may give to files, the index included.
bool is_set_name(const std::string& name);

}  // namespace slabload::safetensors
