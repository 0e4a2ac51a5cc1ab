// Which tensors of a checkpoint are wanted.
#pragma once

#include <string>
#include <vector>

#include "index/tensor_index.h"

namespace slabload {

struct Selection {
  std::vector<std::string> select;   // globs; empty means all
  std::vector<std::string> exclude;  // globs, taken away afterwards
};

// The index with only the selected tensors, order kept. A glob is tried against a tensor's name and its
// aliases. Throws Status::usage if a --select glob matches no tensor (naming the reason if it matches
// something skipped), or if nothing is left; Status::file naming an object that is selected and damaged.
TensorIndex select_tensors(TensorIndex index, const Selection& selection);

// Throws Status::file naming the first object that the selection takes in and that can't be a tensor: for what must not leave
// anything out in silence.
void refuse_skipped(const TensorIndex& index, const Selection& selection);

}  // namespace slabload
