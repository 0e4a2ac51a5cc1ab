#include "backend/safetensors/shard_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "backend/host/file.h"
#include "backend/safetensors/header.h"
#include "base/error.h"
#include "base/narrow.h"

namespace slabload {
namespace {

constexpr int kTemporaryNames = 100;

// A new file beside its target, removed unless it was published.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) {
    std::filesystem::path path(target);
    for (int i = 0;; ++i) {
      auto name = fmt::format(".{}.{}-{}.tmp", path.filename().string(), ::getpid(), i);
      path_ = path.parent_path() / name;
      struct stat s;
      bool taken = ::lstat(path_.c_str(), &s) == 0;
      if (taken && i + 1 < kTemporaryNames) continue;  // what a killed run with our process number left
      file_ = host::File::create_new(path_);
      return;
    }
  }
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  host::File& file() { return file_; }
  void publish(const std::string& target, bool replace) {
    file_.sync();
    file_.close();
    host::publish(path_, target, replace);
    path_.clear();
  }

 private:
  std::string path_;
  host::File file_;
};

std::string quoted(const std::string& text, const std::string& path) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(Status::file, "{}: the name '{}' is not UTF-8, which safetensors needs", printable(path),
         printable(text));
  }
}

std::uint64_t bytes_of(const ShardTensor& t) {
  return t.local_shape.elements() * dtype_size(t.dtype);
}

// Length, JSON and padding, so that the data begins at a multiple of 8.
std::string header_of(const std::vector<const ShardTensor*>& tensors,
                      const std::map<std::string, std::string>& metadata, const std::string& path) {
  std::string json = "{";
  auto comma = [&](const std::string& list) { return list.back() == '{' ? "" : ","; };
  if (!metadata.empty()) {
    std::string list = "{";
    for (const auto& [key, value] : metadata) {
      list += fmt::format("{}{}:{}", comma(list), quoted(key, path), quoted(value, path));
    }
    json += "\"__metadata__\":" + list + "}";
  }
  std::uint64_t offset = 0;
  for (const ShardTensor* t : tensors) {
    std::uint64_t end = offset + bytes_of(*t);
    const Dims& lengths = t->local_shape.lengths();
    json +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", comma(json),
                    quoted(t->name, path), safetensors_name(t->dtype), fmt::join(lengths, ","), offset, end);
    offset = end;
  }
  json += "}";
  json.resize(align_up(json.size(), 8), ' ');
  if (json.size() > safetensors::kMaxHeaderBytes) {
    fail(Status::file, "{}: a header of {} bytes, readers take {} at most", printable(path), json.size(),
         safetensors::kMaxHeaderBytes);
  }
  std::string header;
  for (int i = 0; i < 8; ++i) header += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return header + json;
}

void check_names(const std::vector<ShardTensor>& tensors, const std::string& path) {
  std::unordered_set<std::string_view> names;
  for (const ShardTensor& t : tensors) {
    if (t.name == "__metadata__") {
      fail(Status::file, "{}: a tensor cannot be named __metadata__ in a safetensors file", printable(path));
    }
    if (!names.insert(t.name).second) {
      fail(Status::file, "{}: tensor {} is given twice", printable(path), printable(t.name));
    }
  }
}

}  // namespace

void write_shard_file(const std::string& path, const std::vector<ShardTensor>& tensors,
                      const std::map<std::string, std::string>& metadata, bool replace, const ShardView& view,
                      std::uint64_t piece) {
  struct stat s;
  if (!replace && ::lstat(path.c_str(), &s) == 0) {
    fail(Status::file, "{}: exists already; it is not replaced", printable(path));
  }
  check_names(tensors, path);
  std::vector<const ShardTensor*> order;
  for (const ShardTensor& t : tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(), [](const ShardTensor* a, const ShardTensor* b) {
    return dtype_size(a->dtype) > dtype_size(b->dtype);
  });
  std::string header = header_of(order, metadata, path);

  TemporaryFile temporary(path);
  std::uint64_t at = 0;
  auto write = [&](const void* data, std::uint64_t size) {
    temporary.file().write_at(at, data, size);
    at += size;
  };
  write(header.data(), header.size());
  for (const ShardTensor* t : order) {
    const std::uint64_t bytes = bytes_of(*t);
    if (!view) {
      write(t->data, bytes);
      continue;
    }
    for (std::uint64_t done = 0; done < bytes; done += piece) {
      const std::uint64_t size = std::min(piece, bytes - done);
      write(view(static_cast<const std::byte*>(t->data) + done, size), size);
    }
  }
  temporary.publish(path, replace);
}

}  // namespace slabload
