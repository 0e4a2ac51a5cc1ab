// A load onto GPUs (real ones or doubles), and what it leaves there.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/mpi/control.h"
#include "backend/nccl/fabric.h"
#include "exec/loader.h"
#include "gpu/ordinal.h"
#include "mpi/loader_run.h"

namespace slabload::testing {

// The GPU of this rank, taken once.
inline cuda::CudaDevice& gpu() {
  static std::unique_ptr<cuda::CudaDevice> device;
  if (!device) {
    device = std::make_unique<cuda::CudaDevice>(gpu_ordinal());
    device->warm_up();
    // Before MPI and the CUDA library end.
    struct Ender : ::testing::Environment {
      void TearDown() override { device.reset(); }
    };
    ::testing::AddGlobalTestEnvironment(new Ender);
  }
  return *device;
}

// The shards as the host finds them in the device's memory. What lies between two of them was never written.
inline std::string read_back(Control& control, Device& device, const LoadPlan& plan,
                             const DeviceMemory& shards) {
  std::string out(plan.shard_bytes, '\0');
  if (out.empty()) return out;
  std::unique_ptr<DeviceMemory> here = device.allocate_staging(out.size(), "the test's copy");
  for (const ShardPlace& place : plan.shards) {
    if (place.bytes != 0)
      device.copy_out(shards.data() + place.offset, here->data() + place.offset, place.bytes);
  }
  Mark done = device.mark();
  wait_until(control, [&] { return device.passed(done).has_value(); });
  for (const ShardPlace& place : plan.shards) {
    if (place.bytes != 0) std::memcpy(out.data() + place.offset, here->data() + place.offset, place.bytes);
  }
  return out;
}

struct GpuLoaded {
  LoadPlan plan;
  LoadResult result;
  RankStats stats;
  Timeline timeline;
  std::string shards;  // all of this rank's, as the plan lays them out
};

// What a test puts in place of the real parts; null: the real one.
struct GpuParts {
  Control* control = nullptr;
  Device* device = nullptr;
  Fabric* fabric = nullptr;
  Monitor* monitor = nullptr;
};

// Collective over MPI_COMM_WORLD. `params.pinned` must be set.
inline GpuLoaded load_on_gpu(const TensorIndex& index, const Layout& layout, const PlanParams& params,
                             Storage& storage, VerifyMode verify, std::uint64_t read_piece = 4 << 20,
                             const GpuParts& with = {}) {
  mpi::MpiControl own_control(MPI_COMM_WORLD);
  Control& control = with.control != nullptr ? *with.control : own_control;
  GpuLoaded out;
  out.plan = Planner::make(index, layout, params)->plan(static_cast<std::uint64_t>(control.rank()));
  Device& device = with.device != nullptr ? *with.device : gpu();
  std::unique_ptr<nccl::NcclFabric> own_fabric;
  if (with.fabric == nullptr)
    own_fabric = std::make_unique<nccl::NcclFabric>(control, gpu(), nccl::NcclOptions{});
  Fabric& fabric = with.fabric != nullptr ? *with.fabric : *own_fabric;
  QuietMonitor quiet;
  Monitor& monitor = with.monitor != nullptr ? *with.monitor : quiet;
  LoaderOptions options;
  options.verify = verify;
  options.staging = checked_split(params, converts_any(index, params.cast));
  options.read_piece = read_piece;
  Loader loader(index, {storage, device, fabric, control, monitor}, options);
  out.result = loader.run(out.plan, out.stats, out.timeline);
  out.shards = read_back(control, device, out.plan, *out.result.shards);
  return out;
}

inline std::string shard_of(const GpuLoaded& loaded, std::size_t tensor) {
  const ShardPlace& place = loaded.plan.shards[tensor];
  return loaded.shards.substr(place.bytes == 0 ? 0 : place.offset, place.bytes);
}

}  // namespace slabload::testing
