// What a checkpoint holds, as text and as JSON.
#pragma once

#include <string>

#include "index/tensor_index.h"

namespace slabload {

// Totals, sums per dtype and per storage kind, metadata, skipped objects with their reasons; with `tensors`
// also a line per tensor. Names go through printable().
std::string inspect_text(const TensorIndex& index, bool tensors);

// The same as one JSON object; valid whatever bytes names hold. `tensors` adds the list of that name.
std::string inspect_json(const TensorIndex& index, bool tensors);

}  // namespace slabload
