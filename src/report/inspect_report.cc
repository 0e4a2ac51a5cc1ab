#include "report/inspect_report.h"

#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "report/json_text.h"

namespace slabload {
namespace {

struct Sum {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

struct Sums {
  std::map<DType, Sum> by_dtype;
  std::map<StorageKind, Sum> by_storage;
  std::uint64_t with_checksum = 0;
  std::uint64_t big_endian = 0;
  std::uint64_t stored_bytes = 0;
};

Sums sums_of(const TensorIndex& index) {
  Sums sums;
  for (const TensorMeta& t : index.tensors) {
    for (Sum* sum : {&sums.by_dtype[t.dtype], &sums.by_storage[t.storage]}) {
      ++sum->tensors;
      sum->bytes += t.bytes();
    }
    sums.with_checksum += t.crc64.has_value();
    sums.big_endian += t.big_endian;
    sums.stored_bytes += t.stored_bytes;
  }
  return sums;
}

// "chunked (64, 64) shuffle deflate(6)"
std::string storage_text(const TensorMeta& t) {
  std::string out(storage_name(t.storage));
  if (t.chunked()) out += " " + dims_text(t.chunk);
  for (const std::string& filter : t.filters) out += " " + printable(filter);
  return out;
}

std::string place_text(const TensorIndex& index, const TensorMeta& t) {
  if (t.storage != StorageKind::contiguous) return "-";
  if (index.files.size() <= 1) return fmt::format("at {}", t.offset);
  return fmt::format("at {} of {}", t.offset, printable(index.files.at(t.file).path));
}

std::string tensor_line(const TensorIndex& index, const TensorMeta& t) {
  std::string name = printable(t.name);
  for (std::size_t i = 0; i < t.aliases.size(); ++i) {
    name += (i == 0 ? " (= " : ", ") + printable(t.aliases[i]) + (i + 1 == t.aliases.size() ? ")" : "");
  }
  return fmt::format("{}  {}  {}  {} B  {}  {}{}  {}\n", name, dtype_name(t.dtype), t.shape.text(), t.bytes(),
                     storage_text(t), place_text(index, t), t.big_endian ? "  big-endian" : "",
                     t.crc64 ? "crc64 " + hex64(*t.crc64) : "no checksum");
}

Json tensor_json(const TensorMeta& t) {
  auto numbers = [](const Dims& dims) {
    Json out = Json::array();
    for (std::uint64_t n : dims) out.push_back(n);
    return out;
  };
  auto texts = [](const std::vector<std::string>& list) {
    Json out = Json::array();
    for (const std::string& text : list) out.push_back(json_text(text));
    return out;
  };
  Json json;
  json["name"] = json_text(t.name);
  json["aliases"] = texts(t.aliases);
  json["path"] = json_text(t.path);
  json["dtype"] = dtype_name(t.dtype);
  json["shape"] = numbers(t.shape.lengths());
  json["bytes"] = t.bytes();
  json["storage"] = storage_name(t.storage);
  json["stored_bytes"] = t.stored_bytes;
  json["file"] = t.file;
  json["offset"] = t.storage == StorageKind::contiguous ? Json(t.offset) : Json(nullptr);
  json["chunk"] = t.chunked() ? numbers(t.chunk) : Json(nullptr);
  json["filters"] = texts(t.filters);
  json["byte_order"] = t.big_endian ? "big" : "little";
  json["crc64"] = t.crc64 ? Json(hex64(*t.crc64)) : Json(nullptr);
  return json;
}

}  // namespace

std::string inspect_text(const TensorIndex& index, bool tensors) {
  Sums sums = sums_of(index);
  std::string out;
  auto head = [&](const char* name, const std::string& value) {
    out += fmt::format("# {:<12} {}\n", name, value);
  };
  head("checkpoint", printable(index.path));
  head("format", index.format);
  std::uint64_t size = 0;
  for (const CheckpointFile& file : index.files) size += file.size;
  head("files", fmt::format("{}, {} ({} B)", index.files.size(), format_bytes(size), size));
  if (index.files.size() > 1) {
    for (const CheckpointFile& file : index.files)
      head("file", fmt::format("{} {} B", printable(file.path), file.size));
  }
  head("tensors", fmt::format("{}, {} ({} B)", index.tensors.size(), format_bytes(index.total_bytes()),
                              index.total_bytes()));
  head("stored",
       fmt::format("{} B of tensors, {} B of everything else", sums.stored_bytes, index.metadata_bytes));
  head("checksums", fmt::format("{} of {} tensors", sums.with_checksum, index.tensors.size()));
  if (index.proof != IndexProof::none)
    head("index", index.proof == IndexProof::right ? "proved by its checksum"
                                                   : "NOT what its checksum says; taken on request");
  if (sums.big_endian != 0)
    head("big-endian", fmt::format("{} tensors, converted when loaded", sums.big_endian));
  for (const auto& [dtype, sum] : sums.by_dtype) {
    head("dtype", fmt::format("{:<10} {:>6} tensors {:>16} B", dtype_name(dtype), sum.tensors, sum.bytes));
  }
  for (const auto& [storage, sum] : sums.by_storage) {
    head("storage",
         fmt::format("{:<10} {:>6} tensors {:>16} B", storage_name(storage), sum.tensors, sum.bytes));
  }
  for (const auto& [key, value] : index.metadata) {
    head("metadata", fmt::format("{} = {}", printable(key), printable(value)));
  }
  for (const SkippedObject& object : index.skipped) {
    head("skipped", fmt::format("{}: {}", printable(object.name), printable(object.reason)));
  }
  if (tensors) {
    out += "#\n# name (= other names)  dtype  shape  bytes  storage  place  checksum\n";
    for (const TensorMeta& t : index.tensors) out += tensor_line(index, t);
  }
  return out;
}

std::string inspect_json(const TensorIndex& index, bool tensors) {
  Sums sums = sums_of(index);
  Json json;
  json["schema_version"] = 1;
  json["checkpoint"] = json_text(index.path);
  json["format"] = json_text(index.format);
  json["files"] = Json::array();
  for (const CheckpointFile& file : index.files) {
    json["files"].push_back({{"path", json_text(file.path)}, {"size_bytes", file.size}});
  }
  json["tensor_count"] = index.tensors.size();
  json["total_bytes"] = index.total_bytes();
  json["stored_bytes"] = sums.stored_bytes;
  json["metadata_bytes"] = index.metadata_bytes;
  json["tensors_with_checksum"] = sums.with_checksum;
  json["index_verified"] =
      index.proof == IndexProof::none ? Json(nullptr) : Json(index.proof == IndexProof::right);
  json["tensors_big_endian"] = sums.big_endian;
  json["dtypes"] = Json::object();
  for (const auto& [dtype, sum] : sums.by_dtype) {
    json["dtypes"][std::string(dtype_name(dtype))] = {{"tensors", sum.tensors}, {"bytes", sum.bytes}};
  }
  json["storage"] = Json::object();
  for (const auto& [storage, sum] : sums.by_storage) {
    json["storage"][std::string(storage_name(storage))] = {{"tensors", sum.tensors}, {"bytes", sum.bytes}};
  }
  json["metadata"] = Json::object();
  for (const auto& [key, value] : index.metadata) json["metadata"][json_text(key)] = json_text(value);
  json["skipped"] = Json::array();
  for (const SkippedObject& object : index.skipped) {
    json["skipped"].push_back({{"name", json_text(object.name)}, {"reason", json_text(object.reason)}});
  }
  if (tensors) {
    json["tensors"] = Json::array();
    for (const TensorMeta& t : index.tensors) json["tensors"].push_back(tensor_json(t));
  }
  return dump(json);
}

}  // namespace slabload
