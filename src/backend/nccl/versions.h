// The versions of the libraries that all ranks have to share.
#pragma once

#include <string>

#include "backend/control.h"

namespace slabload::nccl {

// "CUDA 13.0, NCCL 2.28.9": those that are loaded. Throws Status::peer.
std::string libraries_text();

// Compares NCCL and the CUDA runtime of every rank with rank 0's. Throws Status::peer, agreed, naming a rank
// that differs and both versions. Collective.
void check_versions(Control& control);

}  // namespace slabload::nccl
