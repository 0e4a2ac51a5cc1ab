// A safetensors file put together by hand: the header's text as given, true or not.
#pragma once

#include <cstdint>
#include <string>

namespace slabload::testing {

inline std::string safetensors_bytes(const std::string& json, const std::string& data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(static_cast<std::uint64_t>(json.size()) >> (8 * i));
  return out + json + data;
}

// 0, 1, 2, ... as bytes.
inline std::string counting_bytes(std::size_t size, unsigned first = 0) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(first + i);
  return out;
}

}  // namespace slabload::testing
