// Writing a synthetic checkpoint.
#pragma once

#include <string_view>

#include "exec/transfer.h"
#include "index/tensor_index.h"

namespace slabload {

// Version of the values' formula (tensor/synthetic.h), recorded in the file.
inline constexpr std::string_view kGeneratorVersion = "1";

// Writes every tensor of `table` with the values of SyntheticTensor(seed, name, dtype), each rank an even
// share, 4 MiB at a time. The file's metadata gets slabload_seed, slabload_table (the table's file name) and
// slabload_generator. Collective. If any rank fails, all throw its error and the sink is abandoned.
TransferResult generate(CheckpointSink& sink, Control& control, const TensorIndex& table, std::uint64_t seed,
                        Monitor* monitor = nullptr);

}  // namespace slabload
