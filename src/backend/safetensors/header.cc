#include "backend/safetensors/header.h"

#include <algorithm>
#include <tuple>

#include "backend/safetensors/strict_json.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload::safetensors {
namespace {

using nlohmann::json;

// A list of non-negative integers; 1.0 and -0 are not integers here.
std::vector<std::uint64_t> numbers(const json& value, const char* field, const std::string& where) {
  if (!value.is_array()) fail(Status::file, "{}: {} is {}, not a list", where, field, kind_of(value));
  std::vector<std::uint64_t> out;
  out.reserve(value.size());
  for (const json& number : value) {
    if (!number.is_number_unsigned()) {
      fail(Status::file, "{}: {} holds {}, not a whole number from 0 to 2^64-1", where, field,
           number.is_number() ? number.dump() : kind_of(number));
    }
    out.push_back(number.get<std::uint64_t>());
  }
  return out;
}

const json& field_of(const json& entry, const char* field, const std::string& where) {
  auto found = entry.find(field);
  if (found == entry.end()) fail(Status::file, "{}: {} is missing", where, field);
  return *found;
}

HeaderTensor parse_entry(const std::string& name, const json& entry, std::uint64_t data_bytes,
                         const std::string& where) {
  if (!entry.is_object()) fail(Status::file, "{}: its entry is {}, not an object", where, kind_of(entry));
  const json& dtype_field = field_of(entry, "dtype", where);
  const json& shape_field = field_of(entry, "shape", where);
  const json& offsets_field = field_of(entry, "data_offsets", where);
  for (const auto& [key, unused] : entry.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fail(Status::file, "{}: unknown field '{}'", where, printable(key));
    }
  }

  HeaderTensor t;
  t.name = name;
  if (!dtype_field.is_string())
    fail(Status::file, "{}: dtype is {}, not a string", where, kind_of(dtype_field));
  const auto& dtype_text = dtype_field.get_ref<const std::string&>();
  auto dtype = parse_dtype(dtype_text);
  if (!dtype || safetensors_name(*dtype) != dtype_text) {
    fail(Status::file, "{}: unknown dtype '{}'", where, printable(dtype_text));
  }
  t.dtype = *dtype;

  auto lengths = numbers(shape_field, "shape", where);
  if (lengths.size() > kMaxNdim) {
    fail(Status::file, "{}: {} dimensions, at most {} are taken", where, lengths.size(), kMaxNdim);
  }
  t.shape.lengths().assign(lengths.begin(), lengths.end());
  auto elements = t.shape.checked_elements();
  std::uint64_t bytes = 0;
  if (!elements || !checked_multiply(*elements, dtype_size(t.dtype), &bytes)) {
    fail(Status::file, "{}: shape {} is beyond 2^64 bytes", where, t.shape.text());
  }

  auto offsets = numbers(offsets_field, "data_offsets", where);
  if (offsets.size() != 2)
    fail(Status::file, "{}: data_offsets has {} numbers, not 2", where, offsets.size());
  t.begin = offsets[0];
  t.end = offsets[1];
  if (t.begin > t.end) fail(Status::file, "{}: data_offsets [{}, {}] run backwards", where, t.begin, t.end);
  if (t.end > data_bytes) {
    fail(Status::file,
         "{}: data_offsets [{}, {}] reach beyond the {} data bytes of the file: it is cut short or damaged",
         where, t.begin, t.end, data_bytes);
  }
  if (t.end - t.begin != bytes) {
    fail(Status::file, "{}: data_offsets [{}, {}] hold {} bytes, {} {} needs {}", where, t.begin, t.end,
         t.end - t.begin, dtype_text, t.shape.text(), bytes);
  }
  return t;
}

// The tensors, sorted by offset, cover all data bytes once. Empty ones cover nothing, wherever they lie.
void check_cover(const std::vector<HeaderTensor>& tensors, std::uint64_t data_bytes,
                 const std::string& file) {
  std::uint64_t covered = 0;
  const HeaderTensor* last = nullptr;
  for (const HeaderTensor& t : tensors) {
    if (t.begin == t.end) continue;
    if (t.begin < covered) {
      fail(Status::file, "{} tensor {}: data_offsets [{}, {}] overlap those of tensor {}, [{}, {}]", file,
           printable(t.name), t.begin, t.end, printable(last->name), last->begin, last->end);
    }
    if (t.begin > covered) {
      fail(Status::file, "{} tensor {}: bytes {} to {} before it belong to no tensor", file,
           printable(t.name), covered, t.begin);
    }
    covered = t.end;
    last = &t;
  }
  if (covered != data_bytes) {
    fail(Status::file, "{}: {} bytes after the last tensor{}{} belong to no tensor", file,
         data_bytes - covered, last ? " " : "", last ? printable(last->name) : "");
  }
}

}  // namespace

SafetensorsHeader parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file) {
  std::string shown = printable(file);
  if (text.empty() || text.front() != '{') {
    fail(Status::file, "{}: the header does not begin with '{{': not a safetensors file", shown);
  }
  json object = parse_object(text, shown + " header");
  SafetensorsHeader header;
  header.tensors.reserve(object.size());
  for (const auto& [name, entry] : object.items()) {
    if (name != "__metadata__") {
      std::string where = fmt::format("{} tensor {}", shown, printable(name));
      header.tensors.push_back(parse_entry(name, entry, data_bytes, where));
      continue;
    }
    if (!entry.is_object())
      fail(Status::file, "{}: __metadata__ is {}, not an object", shown, kind_of(entry));
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        fail(Status::file, "{}: __metadata__ '{}' is {}, not a string", shown, printable(key),
             kind_of(value));
      }
      header.metadata[key] = value.get<std::string>();
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const HeaderTensor& a, const HeaderTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(header.tensors, data_bytes, shown);
  return header;
}

SafetensorsHeader read_header(const host::File& file) {
  std::string shown = printable(file.path());
  std::uint64_t size = file.state().size;
  if (size < 8) fail(Status::file, "{}: {} bytes, too short for a safetensors file", shown, size);
  unsigned char prefix[8];
  file.read_at(0, prefix, sizeof prefix);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | prefix[i];
  if (length > kMaxHeaderBytes) {
    fail(Status::file, "{}: a header of {} bytes, at most {} are taken: not a safetensors file, or damaged",
         shown, length, kMaxHeaderBytes);
  }
  if (length > size - 8) {
    fail(Status::file, "{}: a header of {} bytes in a file of {}: it is cut short or damaged", shown, length,
         size);
  }
  std::string text(length, '\0');
  file.read_at(8, text.data(), length);
  SafetensorsHeader header = parse_header(text, size - 8 - length, file.path());
  header.data_start = 8 + length;
  return header;
}

}  // namespace slabload::safetensors
