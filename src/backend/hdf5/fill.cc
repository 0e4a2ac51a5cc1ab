#include "backend/hdf5/fill.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace slabload::hdf5 {

void repeat_element(const TensorMeta& tensor, std::uint64_t elements, std::byte* out) {
  std::uint64_t size = dtype_size(tensor.dtype);
  std::uint64_t bytes = elements * size;
  if (bytes == 0) return;
  if (tensor.fill.empty()) {
    std::memset(out, 0, bytes);
    return;
  }
  if (tensor.fill.size() != size) {
    fail(Status::internal, "tensor '{}': a fill value of {} bytes for elements of {}", printable(tensor.name),
         tensor.fill.size(), size);
  }
  std::memcpy(out, tensor.fill.data(), size);
  for (std::uint64_t done = size; done < bytes; done *= 2) {
    std::memcpy(out + done, out, std::min(done, bytes - done));
  }
}

}  // namespace slabload::hdf5
