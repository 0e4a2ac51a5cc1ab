// A safetensors file, as it would lie on a disk; and its header alone in front of as many data bytes as it likes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/host/file.h"
#include "backend/safetensors/header.h"
#include "backend/safetensors/header_text.h"
#include "fuzz/fuzz.h"

using namespace slabload;
using namespace slabload::safetensors;
using fuzz::must;
using fuzz::taken;

namespace {

// What was taken lies within the file, covers all of it once, and says what another JSON reader sees.
void check(const SafetensorsHeader& header, std::string_view text, std::uint64_t data_bytes) {
  nlohmann::json seen = nlohmann::json::parse(text);
  must(seen.size() == header.tensors.size() + (seen.contains("__metadata__") ? 1 : 0), "every entry is a tensor");
  std::uint64_t covered = 0;
  std::set<std::string> names;
  for (const HeaderTensor& t : header.tensors) {
    must(names.insert(t.name).second, "a name once");
    const nlohmann::json& entry = seen.at(t.name);
    must(entry.at("dtype") == safetensors_name(t.dtype), "the dtype");
    must(entry.at("shape").size() == t.shape.ndim(), "the dimensions");
    unsigned __int128 bytes = dtype_size(t.dtype);
    bool empty = false;
    for (std::size_t d = 0; d < t.shape.ndim(); ++d) {
      const auto n = entry["shape"][d].get<std::uint64_t>();
      must(n == t.shape[d], "a length");
      empty = empty || n == 0;
    }
    for (std::size_t d = 0; d < t.shape.ndim() && !empty; ++d) {
      bytes *= t.shape[d];
      must(bytes <= UINT64_MAX, "a size that fits");
    }
    must((empty ? 0 : static_cast<std::uint64_t>(bytes)) == t.end - t.begin, "as many bytes as the shape needs");
    must(entry["data_offsets"][0] == t.begin && entry["data_offsets"][1] == t.end, "the offsets");
    must(t.begin <= t.end && t.end <= data_bytes, "within the file");
    if (t.begin == t.end) continue;
    must(t.begin == covered, "end to end");
    covered = t.end;
  }
  must(covered == data_bytes, "all of the file");

  // Written again, it is taken again and means the same; but for names that tensors cannot have.
  std::vector<HeaderEntry> given, entries;
  for (const HeaderTensor& t : header.tensors) given.push_back({t.name, t.dtype, &t.shape.lengths()});
  for (std::size_t i : aligned_order(given)) entries.push_back(given[i]);
  const std::string again = header_text(entries, header.metadata, "fuzz");
  must(again.size() % 8 == 0, "padded");
  SafetensorsHeader second = parse_header(std::string_view(again).substr(8), data_bytes, "fuzz");
  must(second.metadata == header.metadata, "the metadata again");
  must(second.tensors.size() == header.tensors.size(), "the tensors again");
  std::uint64_t most = frame_bytes(header.metadata, "fuzz");
  for (const HeaderEntry& entry : entries) most += entry_bytes(entry, "fuzz");
  must(again.size() <= most, "the header's bytes as foretold");
  for (const HeaderTensor& t : second.tensors) {
    must(names.erase(t.name) == 1, "the same names");
    must(t.begin % dtype_size(t.dtype) == 0, "aligned");
  }
}

// The input as a file of the system; one is made and used again and again.
host::File file_of(std::string_view bytes) {
  static const int fd = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  must(::ftruncate(fd, static_cast<off_t>(bytes.size())) == 0, "memfd");
  must(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "memfd");
  return host::File::open_read(path);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  std::uint64_t first = 0;
  if (size >= 8) std::memcpy(&first, data, 8);
  SafetensorsHeader header;
  if (size < 8 || first > size - 8) {
    // The first eight bytes tell how much data there is, the rest is the header.
    if (size >= 8 && taken({Status::file}, [&] { header = parse_header(input.substr(8), first, "fuzz"); }))
      check(header, input.substr(8), first);
    if (size < 64) taken({Status::file}, [&] { read_header(file_of(input)); });
    return 0;
  }
  if (taken({Status::file}, [&] { header = read_header(file_of(input)); })) {
    must(header.data_start == 8 + first, "where the data begins");
    check(header, input.substr(8, first), size - 8 - first);
  }
  return 0;
}
