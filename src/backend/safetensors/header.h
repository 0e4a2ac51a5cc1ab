// The header of one safetensors file, checked: 8 bytes of length (little-endian), JSON of that length, tensor
// bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/host/file.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace slabload::safetensors {

// Bytes of the longest header taken, as in the safetensors library.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct HeaderTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the first byte after the header; end - begin is shape x dtype
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<HeaderTensor> tensors;            // by begin, then end, then name
  std::map<std::string, std::string> metadata;  // __metadata__
  std::uint64_t data_start = 0;  // file offset of the first byte after the header; read_header sets it
};

// Checks the JSON of a header against `data_bytes` bytes that follow it in `file`. Believes nothing: the
// tensors lie within the file, have the bytes their shape and dtype ask for, and cover all of it without
// overlap. Throws Status::file naming file and tensor.
SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& file);

// Reads and checks the header of an open file.
SafetensorsHeader read_header(const host::File& file);

}  // namespace slabload::safetensors
