// The product's kernels on the CPU: the same per-thread bodies, over the alias of device memory.
#include "backend/cuda/kernel_body.h"
#include "kernel.h"
#include "violation.h"

namespace fakecuda {
namespace {

using slabload::cuda::CastParams;
using slabload::cuda::ChecksumParams;
using slabload::cuda::RelayoutParams;

template <typename Params>
Params params_of(void** args) {
  return *static_cast<const Params*>(args[0]);
}

// A GPU faults where an access of `unit` bytes is not aligned to them.
void check_unit(const char* kernel, const void* address, std::uint32_t unit) {
  if (unit == 0 || unit > 8 || reinterpret_cast<std::uint64_t>(address) % unit != 0)
    violation("misaligned: %s is given a unit of %u for the address %p", kernel, unit, address);
}

std::uint64_t threads_of(dim3 grid, dim3 block) {
  if (grid.y * grid.z * block.y * block.z != 1) violation("kernels of the product have one dimension");
  return std::uint64_t{grid.x} * block.x;
}

std::function<void()> prepare_cast(dim3 grid, dim3 block, void** args, std::vector<Access>& accesses) {
  auto params = params_of<CastParams>(args);
  if (params.count == 0) return [] {};
  check_unit("slabload_cast", params.in, params.in_unit);
  check_unit("slabload_cast", params.out, params.out_unit);
  accesses = {reads(params.in, params.count * params.rule.from_size),
              writes(params.out, params.count * params.rule.to_size)};
  params.in = alias_of(params.in);
  params.out = alias_of(params.out);
  return [params, threads = threads_of(grid, block)] {
    for (std::uint64_t i = 0; i < threads; ++i) slabload::cuda::cast_thread(params, i, threads);
  };
}

std::function<void()> prepare_relayout(dim3 grid, dim3 block, void** args, std::vector<Access>& accesses) {
  auto params = params_of<RelayoutParams>(args);
  const slabload::Relayout& layout = params.layout;
  if (layout.runs == 0 || layout.run_bytes == 0) return [] {};
  std::uint64_t all = std::uint64_t{params.unit} | layout.run_bytes | layout.from_offset | layout.to_offset;
  for (std::uint32_t d = 0; d < layout.ndim; ++d) all |= layout.from_step[d] | layout.to_step[d];
  check_unit("slabload_relayout", params.from, params.unit);
  check_unit("slabload_relayout", params.to, params.unit);
  check_unit("slabload_relayout", reinterpret_cast<const void*>(all), params.unit);

  const std::uint32_t last = layout.ndim - 1;
  const std::uint64_t rows = layout.ndim > 0 ? layout.extent[last] : 1;
  for (std::uint64_t run = 0; run < layout.runs; run += rows) {
    const slabload::RunPlace place = slabload::place_of_run(layout, run);
    const std::uint64_t from_step = layout.ndim > 0 ? layout.from_step[last] : layout.run_bytes;
    const std::uint64_t to_step = layout.ndim > 0 ? layout.to_step[last] : layout.run_bytes;
    accesses.push_back(reads_rows(params.from + place.from, layout.run_bytes, from_step, rows));
    accesses.push_back(writes_rows(params.to + place.to, layout.run_bytes, to_step, rows));
  }
  params.from = alias_of(params.from);
  params.to = alias_of(params.to);
  return [params, threads = threads_of(grid, block)] {
    for (std::uint64_t i = 0; i < threads; ++i) slabload::cuda::relayout_thread(params, i, threads);
  };
}

std::function<void()> prepare_checksum(dim3 grid, dim3 block, void** args, std::vector<Access>& accesses) {
  auto params = params_of<ChecksumParams>(args);
  if (block.x % 32 != 0) violation("slabload_crc64 needs whole warps, not blocks of %u", block.x);
  if (params.box.lines == 0) return [] {};
  check_unit("slabload_crc64", params.data + params.box.bytes, params.unit);
  check_unit("slabload_crc64", params.sum, 8);
  accesses = {reads(params.data, params.box.bytes), reads(params.sum, sizeof *params.sum),
              writes(params.sum, sizeof *params.sum)};
  params.data = alias_of(params.data);
  params.sum = alias_of(params.sum);
  return [params, threads = threads_of(grid, block)] {
    std::vector<std::uint64_t> table(slabload::kCrc64Entries);
    for (std::uint32_t i = 0; i < table.size(); ++i) table[i] = slabload::crc64_entry(params.box.step, i);
    for (std::uint64_t i = 0; i < threads; ++i)
      *params.sum ^= slabload::cuda::checksum_thread(params, table.data(), 1, i, threads);
  };
}

}  // namespace

const std::vector<FakeKernel>& product_kernels() {
  static const auto* const kernels = new std::vector<FakeKernel>{{"slabload_cast", prepare_cast},
                                                                 {"slabload_relayout", prepare_relayout},
                                                                 {"slabload_crc64", prepare_checksum}};
  return *kernels;
}

}  // namespace fakecuda
