// A table of tensors.
#include "index/table.h"

#include <fmt/format.h>

#include <set>

#include "fuzz/fuzz.h"

using namespace slabload;
using fuzz::must;
using fuzz::taken;

namespace {

std::string printed(const TensorIndex& index) {
  std::string out;
  for (const TensorMeta& t : index.tensors) {
    out += fmt::format("{}\t{}\t{}\n", t.name, dtype_name(t.dtype), fmt::join(t.shape.lengths(), ","));
  }
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TensorIndex index;
  if (!taken({Status::file}, [&] { index = parse_table(fuzz::text_of(data, size), "fuzz.tsv"); })) return 0;
  std::set<std::string> names;
  unsigned __int128 offset = 0;
  for (const TensorMeta& t : index.tensors) {
    must(names.insert(t.name).second, "a name once");
    must(t.offset == offset, "end to end");
    unsigned __int128 bytes = dtype_size(t.dtype);
    for (std::uint64_t n : t.shape.lengths()) bytes = n == 0 ? 0 : bytes * n;
    for (std::uint64_t n : t.shape.lengths()) bytes = n == 0 ? 0 : bytes;
    must(bytes == t.bytes() && bytes == t.stored_bytes, "as many bytes as the shape needs");
    offset += bytes;
    must(offset <= UINT64_MAX, "a size that fits");
  }
  must(!index.tensors.empty() && offset == index.total_bytes(), "the bytes of all");
  must(differences(index, index).empty(), "no difference from itself");

  const TensorIndex again = parse_table(printed(index), "fuzz.tsv");
  must(to_bytes(again) == to_bytes(index), "printed and parsed again, the same");
  must(to_bytes(index_from_bytes(to_bytes(index))) == to_bytes(index), "the same on another rank");

  TensorIndex smaller = index;
  scale_down(smaller, 1 + size % 7);
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    must(smaller.tensors[t].bytes() <= index.tensors[t].bytes(), "not larger when scaled down");
    must((smaller.tensors[t].bytes() == 0) == (index.tensors[t].bytes() == 0), "nothing stays nothing");
  }
  return 0;
}
