// The index as rank 0 sends it.
#include "fuzz/fuzz.h"
#include "index/tensor_index.h"

using namespace slabload;
using fuzz::must;
using fuzz::taken;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TensorIndex index;
  if (!taken({Status::internal}, [&] { index = index_from_bytes(fuzz::text_of(data, size)); })) return 0;
  for (const TensorMeta& t : index.tensors) {
    must(t.shape.ndim() <= kMaxNdim && t.shape.checked_elements().has_value(), "a shape that has a size");
    must(t.bytes() / dtype_size(t.dtype) == t.elements(), "bytes that fit");
    must(t.file < index.files.size() || index.format == "table", "a file that is there");
    must(t.fill.empty() || t.fill.size() == dtype_size(t.dtype), "a fill value of one element");
    must(t.chunk.empty() || t.chunk.size() == t.shape.ndim(), "a chunk of the tensor's dimensions");
  }
  // What was given in two ways is given in one now; after that nothing changes any more.
  const std::string bytes = to_bytes(index);
  must(bytes.size() <= size, "nothing is added");
  const TensorIndex again = index_from_bytes(bytes);
  must(to_bytes(again) == bytes, "sent on, the same");
  must(again.tensors.size() == index.tensors.size() && again.metadata == index.metadata, "the same index");
  sort_for_reading(index);
  must(index.tensors.size() == again.tensors.size(), "sorted, as many");
  return 0;
}
