// A load through the real parts, and the shards that it should end with.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/host/device.h"
#include "backend/mpi/control.h"
#include "backend/mpi/fabric.h"
#include "exec/loader.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"

namespace slabload::testing {

class QuietMonitor final : public Monitor {
 public:
  void at(const char*, const std::string*) override { ++calls; }
  void waiting(const char*, const std::string*) override { ++calls; }
  void moved(std::uint64_t now, std::uint64_t of) override {
    EXPECT_GE(now, done);
    EXPECT_LE(now, of);
    done = now;
    total = of;
  }
  std::uint64_t calls = 0, done = 0, total = 0;
};

struct Loaded {
  LoadPlan plan;
  LoadResult result;
  RankStats stats;
  Timeline timeline;
};

// `fabric`: instead of MpiFabric. Collective over MPI_COMM_WORLD.
inline Loaded load(const TensorIndex& index, const Layout& layout, const PlanParams& params, Storage& storage,
                   VerifyMode verify, Fabric* fabric = nullptr, std::uint64_t read_piece = 4 << 20) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Loaded out;
  out.plan = Planner::make(index, layout, params)->plan(static_cast<std::uint64_t>(control.rank()));
  host::HostDevice device;
  mpi::MpiFabric own(MPI_COMM_WORLD);
  QuietMonitor monitor;
  LoaderOptions options;
  options.verify = verify;
  options.staging = checked_split(params, converts_any(index, params.cast));
  options.read_piece = read_piece;
  Loader loader(index, {storage, device, fabric ? *fabric : own, control, monitor}, options);
  out.result = loader.run(out.plan, out.stats, out.timeline);
  EXPECT_EQ(monitor.done, monitor.total);
  return out;
}

// The bits of element i of a tensor as they are stored, in little-endian terms.
using StoredBits = std::function<std::uint64_t(const TensorMeta&, std::uint64_t)>;

inline StoredBits formula(std::uint64_t seed) {
  return [seed](const TensorMeta& tensor, std::uint64_t i) {
    return formula_bits(seed, tensor.name, tensor.dtype, i);
  };
}

// The bytes that this rank's shard of a tensor should have. `dims` as in RandomCase.
inline std::string expected_shard(const TensorMeta& tensor, const std::vector<std::uint64_t>& mesh,
                                  const std::vector<int>& dims, std::uint64_t rank,
                                  const std::optional<DType>& cast, const StoredBits& bits) {
  std::vector<std::uint64_t> shape(tensor.shape.lengths().begin(), tensor.shape.lengths().end());
  DType to = cast && is_floating(tensor.dtype) ? *cast : tensor.dtype;
  std::string out;
  for (std::uint64_t i : reference_held(shape, mesh, dims, rank)) {
    append_bits(out, cast_bits(tensor.dtype, to, bits(tensor, i)), dtype_size(to));
  }
  return out;
}

// Names of the tensors whose shard on this rank is not what it should be.
inline std::vector<std::string> wrong_shards(const TensorIndex& index, const Loaded& loaded,
                                             const std::vector<std::uint64_t>& mesh,
                                             const std::map<std::string, std::vector<int>>& dims,
                                             const std::optional<DType>& cast, const StoredBits& bits) {
  std::vector<std::string> wrong;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    const ShardPlace& place = loaded.plan.shards[t];
    const std::string& name = index.tensors[t].name;
    std::string want = expected_shard(index.tensors[t], mesh, dims.at(name), loaded.plan.rank, cast, bits);
    std::string have(
        reinterpret_cast<const char*>(loaded.result.shards->data()) + (place.bytes ? place.offset : 0),
        place.bytes);
    if (have != want) wrong.push_back(name);
  }
  return wrong;
}

inline std::map<std::string, std::vector<int>> dims_by_name(const RandomCase& c) {
  std::map<std::string, std::vector<int>> out;
  for (std::size_t t = 0; t < c.index.tensors.size(); ++t) out[c.index.tensors[t].name] = c.dims[t];
  return out;
}

// CRC-64/XZ bit by bit.
inline std::uint64_t plain_crc64(const std::string& bytes) {
  std::uint64_t crc = ~std::uint64_t{0};
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xC96C5795D7870F42ULL : 0);
  }
  return ~crc;
}

}  // namespace slabload::testing
