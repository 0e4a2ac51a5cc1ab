#include "backend/safetensors/header_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "backend/safetensors/header.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload::safetensors {
namespace {

std::string quoted(std::string_view text, const std::string& file) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(Status::file, "{}: the name '{}' is not UTF-8, which safetensors needs", printable(file), printable(text));
  }
}

std::string entry_text(const HeaderEntry& entry, std::uint64_t begin, const std::string& file) {
  return fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quoted(entry.name, file),
                     safetensors_name(entry.dtype), fmt::join(*entry.lengths, ","), begin, begin + entry.bytes());
}

std::string metadata_text(const std::map<std::string, std::string>& metadata, const std::string& file) {
  if (metadata.empty()) return "";
  std::string list;
  for (const auto& [key, value] : metadata) {
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", quoted(key, file), quoted(value, file));
  }
  return "\"__metadata__\":{" + list + "}";
}

}  // namespace

std::uint64_t HeaderEntry::bytes() const {
  std::uint64_t product = dtype_size(dtype);
  for (std::uint64_t n : *lengths) product *= n;
  return product;
}

std::vector<std::size_t> aligned_order(const std::vector<HeaderEntry>& entries) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return dtype_size(entries[a].dtype) > dtype_size(entries[b].dtype);
  });
  return order;
}

std::string header_text(const std::vector<HeaderEntry>& entries, const std::map<std::string, std::string>& metadata,
                        const std::string& file) {
  std::string json = "{" + metadata_text(metadata, file);
  std::unordered_set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.name == "__metadata__")
      fail(Status::file, "{}: a tensor cannot be named __metadata__ in a safetensors file", printable(file));
    if (!names.insert(entry.name).second)
      fail(Status::file, "{}: tensor {} is given twice", printable(file), printable(entry.name));
    if (json.size() > 1) json += ',';
    json += entry_text(entry, offset, file);
    offset += entry.bytes();
  }
  json += "}";
  json.resize(align_up(json.size(), 8), ' ');
  if (json.size() > kMaxHeaderBytes) {
    fail(Status::file, "{}: a header of {} bytes, readers take {} at most", printable(file), json.size(),
         kMaxHeaderBytes);
  }
  std::string header;
  for (int i = 0; i < 8; ++i) header += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return header + json;
}

std::uint64_t entry_bytes(const HeaderEntry& entry, const std::string& file) {
  // As if it were at the end of the largest file; and a comma.
  return entry_text(entry, UINT64_MAX - entry.bytes(), file).size() + 1;
}

std::uint64_t frame_bytes(const std::map<std::string, std::string>& metadata, const std::string& file) {
  return 8 + metadata_text(metadata, file).size() + 2 + 7;  // the length; the braces; padding
}

bool is_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace slabload::safetensors
