// The header of a safetensors file to be written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace slabload::safetensors {

struct HeaderEntry {
  std::string_view name;
  DType dtype = DType::f32;
  const Dims* lengths = nullptr;
  std::uint64_t bytes() const;
};

// The order in which tensors are laid end to end so that each begins at a multiple of its element's size: the widest
// elements first, otherwise as given. Numbers of `entries`.
std::vector<std::size_t> aligned_order(const std::vector<HeaderEntry>& entries);

// Length, JSON and padding of a file that holds the tensors end to end in this order; what follows begins at a multiple
// of 8. Throws Status::file naming `file` and the tensor: a name given twice, one that is not UTF-8 or is
// __metadata__, a header longer than readers take.
std::string header_text(const std::vector<HeaderEntry>& entries, const std::map<std::string, std::string>& metadata,
                        const std::string& file);

// No fewer bytes than the entry, or the metadata with the braces around all, takes of a header.
std::uint64_t entry_bytes(const HeaderEntry& entry, const std::string& file);
std::uint64_t frame_bytes(const std::map<std::string, std::string>& metadata, const std::string& file);

// True if the text is UTF-8, which all text in a header has to be.
bool is_utf8(const std::string& text);

}  // namespace slabload::safetensors
