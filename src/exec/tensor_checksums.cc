#include "exec/tensor_checksums.h"

#include "base/crc64.h"

namespace slabload {

TensorChecksums::TensorChecksums(const TensorIndex& index)
    : index_(index), linear_(index.tensors.size(), 0) {}

void TensorChecksums::add(std::size_t tensor, FlatRange range, const void* data) {
  const TensorMeta& t = index_.tensors[tensor];
  const std::uint64_t element = dtype_size(t.dtype);
  linear_[tensor] ^= crc64_shift(crc64_part(data, range.size() * element), t.bytes() - range.end * element);
}

std::vector<std::uint64_t> TensorChecksums::combine(Control& control) {
  control.bit_xor(linear_);
  std::vector<std::uint64_t> crc64(linear_.size());
  for (std::size_t i = 0; i < crc64.size(); ++i)
    crc64[i] = crc64_finish(linear_[i], index_.tensors[i].bytes());
  return crc64;
}

}  // namespace slabload
