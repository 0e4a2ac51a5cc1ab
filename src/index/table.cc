#include "index/table.h"

#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/narrow.h"

namespace slabload {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Dims parse_lengths(std::string_view text, const std::string& where) {
  Dims lengths;
  if (text.empty() || text == "()" || text == "-") return lengths;
  for (std::string_view part : split(text, ',')) {
    std::uint64_t n = 0;
    auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), n);
    if (code != std::errc() || end != part.data() + part.size()) {
      fail(Status::file, "{}: '{}' is not a length", where, printable(part));
    }
    lengths.push_back(n);
  }
  if (lengths.size() > kMaxNdim)
    fail(Status::file, "{}: {} dimensions, at most {} are taken", where, lengths.size(), kMaxNdim);
  return lengths;
}

// Offsets of tensors laid end to end, in the order given.
void lay_out(TensorIndex& index) {
  std::uint64_t offset = 0;
  for (TensorMeta& t : index.tensors) {
    t.offset = offset;
    t.stored_bytes = t.bytes();
    if (!checked_add(offset, t.bytes(), &offset)) {
      fail(Status::file, "{}: the tensors together are beyond 2^64 bytes", index.path);
    }
  }
}

}  // namespace

TensorIndex parse_table(std::string_view text, const std::string& source) {
  TensorIndex index;
  index.path = source;
  index.format = "table";
  index.files.push_back({source, 0, 0, 0});
  std::unordered_set<std::string> names;
  std::size_t line_number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    std::string where = fmt::format("{} line {}", source, line_number);
    auto columns = split(line, '\t');
    if (columns.size() != 3) {
      fail(Status::file, "{}: {} columns, expected 3 (name, dtype, shape, separated by tabs)", where,
           columns.size());
    }
    TensorMeta t;
    t.name = columns[0];
    t.path = t.name;
    if (t.name.empty()) fail(Status::file, "{}: a tensor without a name", where);
    where += fmt::format(", tensor {}", printable(t.name));
    auto dtype = parse_dtype(columns[1]);
    if (!dtype) fail(Status::file, "{}: unknown dtype '{}'", where, printable(columns[1]));
    t.dtype = *dtype;
    t.shape = Shape(parse_lengths(columns[2], where));
    auto elements = t.shape.checked_elements();
    if (!elements || *elements > (std::uint64_t{1} << 60)) {
      fail(Status::file, "{}: shape {} has more elements than any file", where, t.shape.text());
    }
    if (!names.insert(t.name).second) fail(Status::file, "{}: the name is given twice", where);
    index.tensors.push_back(std::move(t));
  }
  if (index.tensors.empty()) fail(Status::file, "{}: no tensor in the table", source);
  lay_out(index);
  return index;
}

void scale_down(TensorIndex& index, std::uint64_t factor) {
  for (TensorMeta& t : index.tensors) {
    for (std::uint64_t& n : t.shape.lengths()) {
      if (n > factor) n = ceil_div(n, factor);
    }
  }
  lay_out(index);
}

std::vector<std::string> differences(const TensorIndex& wanted, const TensorIndex& there) {
  std::unordered_map<std::string, const TensorMeta*> by_name;
  for (const TensorMeta& t : there.tensors) {
    by_name[t.name] = &t;
    for (const auto& alias : t.aliases) by_name[alias] = &t;
  }
  std::vector<std::string> out;
  std::unordered_set<const TensorMeta*> used;
  for (const TensorMeta& want : wanted.tensors) {
    auto found = by_name.find(want.name);
    if (found == by_name.end()) {
      out.push_back(
          fmt::format("missing: {} {} {}", printable(want.name), dtype_name(want.dtype), want.shape.text()));
      continue;
    }
    const TensorMeta& have = *found->second;
    used.insert(&have);
    if (have.dtype != want.dtype || !(have.shape == want.shape)) {
      out.push_back(fmt::format("different: {} is {} {}, expected {} {}", printable(want.name),
                                dtype_name(have.dtype), have.shape.text(), dtype_name(want.dtype),
                                want.shape.text()));
    }
  }
  for (const TensorMeta& have : there.tensors) {
    if (!used.count(&have)) {
      out.push_back(
          fmt::format("extra: {} {} {}", printable(have.name), dtype_name(have.dtype), have.shape.text()));
    }
  }
  return out;
}

}  // namespace slabload
