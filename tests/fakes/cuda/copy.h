// Copies and fills, as operations of streams.
#pragma once

#include <driver_types.h>

#include "order.h"
#include "stream.h"

namespace fakecuda {

// `function` names it in messages. Ends the process for wrong directions, pageable memory and pitches below
// the width. Rows of `to` and `from` have equal widths and numbers.
void copy(Stream& stream, const char* function, const Region& to, const Region& from, cudaMemcpyKind kind);
void fill(Stream& stream, const char* function, const Region& to, int value);

// cudaMemcpy: the host waits, and its side may be pageable.
cudaError_t copy_and_wait(void* to, const void* from, std::uint64_t bytes, cudaMemcpyKind kind);

}  // namespace fakecuda
