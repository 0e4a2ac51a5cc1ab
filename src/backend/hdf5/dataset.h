// One dataset described as a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/hdf5/handle.h"
#include "index/tensor_index.h"

namespace slabload::hdf5 {

// Either a tensor (path, dtype, shape and where its bytes lie are set; name and aliases are the caller's) or
// the reason why it is none.
struct Description {
  std::optional<TensorMeta> tensor;
  std::string reason;
};

// Reads no element. The tensor's path is that of `where`. `file_size` bounds what the dataset may claim;
// throws Status::file if a claim lies beyond it.
Description describe_dataset(hid_t dataset, std::uint64_t file_size, const Where& where);

}  // namespace slabload::hdf5
