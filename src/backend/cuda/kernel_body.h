// What the kernels do, thread by thread, as functions that a host can run too; and what each is given, which
// is copied to the GPU at the launch. No CUDA header is needed here.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "base/unaligned.h"
#include "tensor/box_checksum_body.h"
#include "tensor/cast_body.h"
#include "tensor/relayout_body.h"

namespace slabload::cuda {

// In each struct the units (1, 2, 4 or 8) divide the addresses, so that the GPU may use accesses of that
// width.

struct CastParams {
  CastRule rule;
  const unsigned char* in;
  unsigned char* out;
  std::uint64_t count;  // elements
  std::uint32_t in_unit;
  std::uint32_t out_unit;
};

struct RelayoutParams {
  Relayout layout;
  const unsigned char* from;
  unsigned char* to;
  std::uint32_t unit;  // divides the length of runs and all steps as well
};

struct ChecksumParams {
  BoxCrc box;
  const unsigned char* data;
  std::uint64_t* sum;  // XORed into
  std::uint32_t unit;  // divides the data's end, and groups and rows
};

// The casts of elements first, first + step, ... Several loads are under way at once: small ones alone would
// not keep the memory busy.
SLABLOAD_HD inline void cast_thread(const CastParams& p, std::uint64_t first, std::uint64_t step) {
  constexpr std::uint32_t kBatch = 4;
  std::uint32_t from_size = p.rule.from_size;
  std::uint32_t to_size = p.rule.to_size;
  for (std::uint64_t i = first; i < p.count; i += kBatch * step) {
    std::uint64_t bits[kBatch];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (std::uint32_t b = 0; b < kBatch; ++b) {
      std::uint64_t at = i + b * step;
      bits[b] = at < p.count ? load_bits(p.in + at * from_size, from_size, p.in_unit) : 0;
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (std::uint32_t b = 0; b < kBatch; ++b) {
      std::uint64_t at = i + b * step;
      if (at < p.count) store_bits(p.out + at * to_size, cast_bits(bits[b], p.rule), to_size, p.out_unit);
    }
  }
}

SLABLOAD_HD inline std::uint64_t relayout_work(const RelayoutParams& p) {
  return p.layout.runs * (p.layout.run_bytes / p.unit);
}

// Moves the units numbered first, first + step, ... through all runs.
SLABLOAD_HD inline void relayout_thread(const RelayoutParams& p, std::uint64_t first, std::uint64_t step) {
  std::uint64_t work = relayout_work(p);
  for (std::uint64_t i = first; i < work; i += step) {
    Quotient run = divide(i, p.layout.run_bytes / p.unit);
    RunPlace place = place_of_run(p.layout, run.whole);
    std::uint64_t at = run.rest * p.unit;
    store_bits(p.to + place.to + at, load_bits(p.from + place.from + at, p.unit, p.unit), p.unit, p.unit);
  }
}

// The XOR of the shares of threads first, first + step, ... of all lines; box.lanes divides step. `table` and
// `stride` are those of crc64_multiply_by_table for box.step.
SLABLOAD_HD inline std::uint64_t checksum_thread(const ChecksumParams& p, const std::uint64_t* table,
                                                 std::uint32_t stride, std::uint64_t first,
                                                 std::uint64_t step) {
  std::uint64_t shares = 0;
  for (std::uint64_t i = first; i < p.box.lines * p.box.lanes; i += step) {
    std::uint64_t line = i / p.box.lanes;
    auto lane = static_cast<std::uint32_t>(i % p.box.lanes);
    shares ^= box_crc_share(p.box, p.data, p.unit, table, stride, line, lane);
  }
  return shares;
}

}  // namespace slabload::cuda
