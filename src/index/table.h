// The tensor table: a text file with a tensor a line, name TAB dtype TAB shape ("896,4864"; empty for 0-d).
// Lines that start with # and empty lines are passed over.
#pragma once

#include <string>
#include <string_view>

#include "index/tensor_index.h"

namespace slabload {

// `source` names the text in errors. Offsets are those of tensors laid end to end. Throws Status::file naming
// line and tensor: wrong column count, unknown dtype, bad length, a product beyond 64 bits, a name given
// twice, no tensor at all.
TensorIndex parse_table(std::string_view text, const std::string& source);

// Divides every dimension above `factor` by it (rounded up): a small checkpoint with the same structure.
void scale_down(TensorIndex& index, std::uint64_t factor);

// All differences between the tensors wanted (`--expect`) and those there are: missing, extra, other dtype or
// shape, a line each.
std::vector<std::string> differences(const TensorIndex& wanted, const TensorIndex& there);

}  // namespace slabload
