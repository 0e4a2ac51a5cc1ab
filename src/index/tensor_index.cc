#include "index/tensor_index.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"

namespace slabload {

std::string_view storage_name(StorageKind kind) {
  switch (kind) {
    case StorageKind::contiguous:
      return "contiguous";
    case StorageKind::chunked:
      return "chunked";
    case StorageKind::chunked_holes:
      return "chunked, partly unwritten";
    case StorageKind::compact:
      return "compact";
    case StorageKind::fill:
      return "never written";
  }
  return "?";
}

std::uint64_t TensorIndex::total_bytes() const {
  std::uint64_t sum = 0;
  for (const TensorMeta& t : tensors) sum += t.bytes();
  return sum;
}

const TensorMeta* TensorIndex::find(const std::string& name) const {
  for (const TensorMeta& t : tensors) {
    if (t.name == name || std::find(t.aliases.begin(), t.aliases.end(), name) != t.aliases.end()) return &t;
  }
  return nullptr;
}

TensorIndex plain_index(TensorIndex index) {
  for (TensorMeta& tensor : index.tensors) {
    tensor.big_endian = false;
    tensor.storage = StorageKind::contiguous;
    tensor.stored_bytes = tensor.bytes();
    tensor.chunk.clear();
    tensor.filters.clear();
    tensor.fill.clear();
    tensor.crc64.reset();
  }
  return index;
}

void sort_for_reading(TensorIndex& index) {
  std::sort(index.tensors.begin(), index.tensors.end(), [](const TensorMeta& a, const TensorMeta& b) {
    return std::tie(a.file, a.offset, a.name) < std::tie(b.file, b.offset, b.name);
  });
}

namespace {

constexpr std::uint64_t kMagic = 0x32584449424c5301;  // changes with the encoding

class Writer {
 public:
  void number(std::uint64_t value) { out_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  std::uint64_t number() {
    std::uint64_t value;
    need(sizeof value);
    std::memcpy(&value, in_.data(), sizeof value);
    in_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    std::uint64_t size = number();
    need(size);
    std::string value(in_.substr(0, size));
    in_.remove_prefix(size);
    return value;
  }
  // A count of things that take at least `least` bytes each: so a damaged count cannot ask for memory.
  std::uint64_t count(std::uint64_t least) {
    std::uint64_t n = number();
    if (n > in_.size() / least) broken();
    return n;
  }
  void finish() const {
    if (!in_.empty()) broken();
  }
  [[noreturn]] static void broken() { fail(Status::internal, "the index sent by rank 0 is damaged"); }

 private:
  void need(std::uint64_t size) const {
    if (size > in_.size()) broken();
  }
  std::string_view in_;
};

void put(Writer& w, const TensorMeta& t) {
  w.text(t.name);
  w.number(t.aliases.size());
  for (const auto& alias : t.aliases) w.text(alias);
  w.text(t.path);
  w.number(static_cast<std::uint64_t>(t.dtype));
  w.number(t.shape.ndim());
  for (std::uint64_t n : t.shape.lengths()) w.number(n);
  w.number(t.big_endian);
  w.number(static_cast<std::uint64_t>(t.storage));
  w.number(t.file);
  w.number(t.offset);
  w.number(t.stored_bytes);
  w.number(t.chunk.size());
  for (std::uint64_t n : t.chunk) w.number(n);
  w.number(t.filters.size());
  for (const auto& filter : t.filters) w.text(filter);
  w.text({reinterpret_cast<const char*>(t.fill.data()), t.fill.size()});
  w.number(t.crc64.has_value());
  w.number(t.crc64.value_or(0));
}

TensorMeta get_tensor(Reader& r) {
  TensorMeta t;
  t.name = r.text();
  t.aliases.resize(r.count(8));
  for (auto& alias : t.aliases) alias = r.text();
  t.path = r.text();
  std::uint64_t dtype = r.number();
  if (dtype >= static_cast<std::uint64_t>(kDTypeCount)) Reader::broken();
  t.dtype = static_cast<DType>(dtype);
  std::uint64_t ndim = r.count(8);
  if (ndim > kMaxNdim) Reader::broken();
  t.shape.lengths().resize(ndim);
  for (std::uint64_t& n : t.shape.lengths()) n = r.number();
  if (auto elements = t.shape.checked_elements(); !elements || *elements > UINT64_MAX / 8) Reader::broken();
  t.big_endian = r.number() != 0;
  std::uint64_t storage = r.number();
  if (storage > static_cast<std::uint64_t>(StorageKind::fill)) Reader::broken();
  t.storage = static_cast<StorageKind>(storage);
  std::uint64_t file = r.number();
  if (file > UINT32_MAX) Reader::broken();
  t.file = static_cast<std::uint32_t>(file);
  t.offset = r.number();
  t.stored_bytes = r.number();
  std::uint64_t chunk_ndim = r.count(8);
  if (chunk_ndim != 0 && chunk_ndim != ndim) Reader::broken();
  t.chunk.resize(chunk_ndim);
  for (std::uint64_t& n : t.chunk) {
    n = r.number();
    if (n == 0) Reader::broken();  // it divides
  }
  t.filters.resize(r.count(8));
  for (auto& filter : t.filters) filter = r.text();
  std::string fill = r.text();
  if (!fill.empty() && fill.size() != dtype_size(t.dtype)) Reader::broken();
  t.fill.assign(fill.begin(), fill.end());
  bool has_crc = r.number() != 0;
  std::uint64_t crc = r.number();
  if (has_crc) t.crc64 = crc;
  return t;
}

}  // namespace

std::string to_bytes(const TensorIndex& index) {
  Writer w;
  w.number(kMagic);
  w.text(index.path);
  w.text(index.format);
  w.number(index.files.size());
  for (const CheckpointFile& file : index.files) {
    w.text(file.path);
    w.number(file.size);
    w.number(static_cast<std::uint64_t>(file.mtime_ns));
    w.number(file.inode);
  }
  w.number(index.tensors.size());
  for (const TensorMeta& t : index.tensors) put(w, t);
  w.number(index.skipped.size());
  for (const SkippedObject& object : index.skipped) {
    w.text(object.name);
    w.text(object.reason);
  }
  w.number(index.metadata.size());
  for (const auto& [key, value] : index.metadata) {
    w.text(key);
    w.text(value);
  }
  w.number(index.metadata_bytes);
  w.number(static_cast<std::uint64_t>(index.proof));
  return w.take();
}

TensorIndex index_from_bytes(std::string_view bytes) {
  Reader r(bytes);
  if (r.number() != kMagic) Reader::broken();
  TensorIndex index;
  index.path = r.text();
  index.format = r.text();
  index.files.resize(r.count(32));
  for (CheckpointFile& file : index.files) {
    file.path = r.text();
    file.size = r.number();
    file.mtime_ns = static_cast<std::int64_t>(r.number());
    file.inode = r.number();
  }
  std::uint64_t tensors = r.count(100);
  index.tensors.reserve(tensors);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    index.tensors.push_back(get_tensor(r));
    if (index.tensors.back().file >= index.files.size() && index.format != "table") Reader::broken();
  }
  index.skipped.resize(r.count(16));
  for (SkippedObject& object : index.skipped) {
    object.name = r.text();
    object.reason = r.text();
  }
  std::uint64_t entries = r.count(16);
  for (std::uint64_t i = 0; i < entries; ++i) {
    std::string key = r.text();
    index.metadata[key] = r.text();
  }
  index.metadata_bytes = r.number();
  std::uint64_t proof = r.number();
  if (proof > static_cast<std::uint64_t>(IndexProof::wrong)) Reader::broken();
  index.proof = static_cast<IndexProof>(proof);
  r.finish();
  return index;
}

}  // namespace slabload
