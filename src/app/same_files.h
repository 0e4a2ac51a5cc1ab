// Hosts that see different files under one name, found out before any tensor is read.
#pragma once

#include "app/session.h"
#include "index/tensor_index.h"

namespace slabload {

// Refuses an index whose files are others on another host than on rank 0's: their size, their inode, or what they hold
// at a few places (index/file_samples.h). One rank of each host looks; on one host nobody does. Collective; throws
// Status::file, agreed, naming both hosts.
void check_same_files(Session& session, const TensorIndex& index);

}  // namespace slabload
