// What FSDP1 flattens together: the tensors of one wrapped block.
#pragma once

#include <string_view>
#include <vector>

#include "layout/layout.h"

namespace slabload {

// The block of a name: up to its first part that is a number ("model.layers.12" of "model.layers.12.mlp.w";
// parts end at '.' or '/'); empty, the root's, if there is none.
std::string_view flat_block(std::string_view name);

// Gives the tensors whose layout is flat their places: those of one block and dtype lie one after the other
// in the order of the index. Throws Status::usage if a block has more than 2^64 elements.
void join_blocks(const TensorIndex& index, std::vector<TensorLayout>& layouts);

}  // namespace slabload
