// Conversions on bit patterns: byte order, and casts between floating types. The bodies (tensor/cast_body.h)
// are exact and the same everywhere, so that a host and a GPU agree bit for bit.
#pragma once

#include <cstdint>

#include "tensor/cast_body.h"
#include "tensor/dtype.h"

namespace slabload {

// Reverses the bytes of each of `count` elements of `size` bytes (1, 2, 4 or 8), in place.
void swap_bytes(void* data, std::uint64_t count, std::uint32_t size);

// True if --cast may turn `from` into `to`: both floating, `to` one of f32, f16, bf16.
bool can_cast(DType from, DType to);

// True if some values of `from` are not values of `to`.
bool is_narrowing(DType from, DType to);

// What a kernel needs to know; can_cast(from, to) holds.
CastRule cast_rule(DType from, DType to);

// Casts `count` elements. Rounds to nearest, ties to even; overflow becomes infinity; a NaN stays a NaN
// (quiet, its upper payload bits kept). `in` and `out` do not overlap. can_cast(from, to) holds.
void cast_elements(DType from, DType to, const void* in, std::uint64_t count, void* out);

}  // namespace slabload
