#include "backend/safetensors/shard_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>

#include "backend/host/temporary_file.h"
#include "backend/safetensors/header_text.h"
#include "base/error.h"

namespace slabload {
void write_shard_file(const std::string& path, const std::vector<ShardTensor>& tensors,
                      const std::map<std::string, std::string>& metadata, bool replace, const ShardView& view,
                      std::uint64_t piece) {
  struct stat s;
  if (!replace && ::lstat(path.c_str(), &s) == 0) {
    fail(Status::file, "{}: exists already; it is not replaced", printable(path));
  }
  std::vector<safetensors::HeaderEntry> given, entries;
  for (const ShardTensor& t : tensors) given.push_back({t.name, t.dtype, &t.local_shape.lengths()});
  const std::vector<std::size_t> order = safetensors::aligned_order(given);
  for (std::size_t i : order) entries.push_back(given[i]);
  const std::string header = safetensors::header_text(entries, metadata, path);

  host::TemporaryFile temporary(path);
  std::uint64_t at = 0;
  auto write = [&](const void* data, std::uint64_t size) {
    temporary.file().write_at(at, data, size);
    at += size;
  };
  write(header.data(), header.size());
  for (std::size_t i : order) {
    const ShardTensor& t = tensors[i];
    const std::uint64_t bytes = given[i].bytes();
    if (!view) {
      write(t.data, bytes);
      continue;
    }
    for (std::uint64_t done = 0; done < bytes; done += piece) {
      const std::uint64_t size = std::min(piece, bytes - done);
      write(view(static_cast<const std::byte*>(t.data) + done, size), size);
    }
  }
  temporary.publish(path, replace);
}

}  // namespace slabload
