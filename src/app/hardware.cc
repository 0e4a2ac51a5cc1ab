#include "app/hardware.h"

#include <map>

#include "backend/host/device.h"
#include "backend/mpi/fabric.h"
#if SLABLOAD_CUDA
#include "backend/cuda/device.h"
#include "backend/cuda/probe.h"
#include "backend/nccl/fabric.h"
#include "backend/nccl/versions.h"
#endif

namespace slabload {
namespace {

// What this rank can have of the GPUs that its process is shown.
struct Finding {
  std::string lacking;  // why it can have none; empty if it can
  bool broken = false;  // there should be one, but CUDA fails
  int ordinal = 0;
  std::string gpu;  // the same text on two ranks of a node: the same GPU
};

Finding look(const Session& session) {
  Finding mine;
#if SLABLOAD_CUDA
  cuda::GpuProbe found = cuda::probe();
  mine.lacking = found.unusable;
  mine.broken = found.broken;
  if (!found.usable()) return mine;
  // Launchers that bind GPUs to tasks show each process its own only: then the numbers repeat, but not the
  // GPUs.
  mine.ordinal = session.rank_on_node() % static_cast<int>(found.gpus.size());
  mine.gpu = found.gpus[static_cast<std::size_t>(mine.ordinal)].pci_bus_id;
#else
  (void)session;
  mine.lacking =
      "this program was built without CUDA; build it where the CUDA toolkit and NCCL are (CUDA_HOME=... "
      "make)";
#endif
  return mine;
}

// Why the ranks cannot have a GPU each, the same on all; empty if they can.
std::string shared_gpu(Session& session, const Finding& mine) {
  Control& control = session.control();
  std::map<std::string, std::size_t> owners;
  std::string verdict;
  std::vector<std::string> all = control.gather(fmt::format("{}\n{}", session.node(), mine.gpu));
  for (std::size_t rank = 0; rank < all.size() && verdict.empty(); ++rank) {
    auto [owner, fresh] = owners.emplace(all[rank], rank);
    if (fresh) continue;
    verdict = fmt::format(
        "ranks {} and {} of one node would share GPU {}: there are more ranks than GPUs; start one rank for "
        "each",
        owner->second, rank, all[rank].substr(all[rank].find('\n') + 1));
  }
  return control.broadcast(std::move(verdict), 0);
}

}  // namespace

std::string Hardware::libraries() {
#if SLABLOAD_CUDA
  return nccl::libraries_text();
#else
  return "built without CUDA";
#endif
}

Hardware::Hardware(Session& session, const RunOptions& options) : session_(session) {
  if (options.device != "host") find_gpus(options);
  if (gpu_ && options.fabric == "mpi") {
    if (options.device == "cuda")
      fail_agreed(Status::usage,
                  "--fabric mpi moves bytes between host memories; with --device cuda use nccl or auto");
    gpu_ = false;
    why_ = "auto: --fabric mpi moves bytes between host memories";
  }
  if (!gpu_ && options.fabric == "nccl") {
    fail_agreed(Status::usage,
                options.device == "host" ? "--fabric nccl needs --device cuda" : "--fabric nccl: " + why_);
  }
#if SLABLOAD_CUDA
  if (gpu_) nccl::check_versions(session.control());
#endif
}

void Hardware::find_gpus(const RunOptions& options) {
  Control& control = session_.control();
  const Finding mine = look(session_);
  ordinal_ = mine.ordinal;
  std::uint64_t first = mine.lacking.empty() ? UINT64_MAX : static_cast<std::uint64_t>(control.rank());
  control.min({&first, 1});
  std::string reason;
  std::uint64_t broken = mine.broken ? 1 : 0;
  if (first == UINT64_MAX) {
    reason = shared_gpu(session_, mine);
  } else {
    reason = fmt::format("rank {} on {}: {}", control.rank(), control.host(), mine.lacking);
    reason = control.broadcast(std::move(reason), static_cast<int>(first));
    control.max({&broken, 1});
  }
  if (broken != 0) fail_agreed(Status::peer, fmt::format("--device {}: {}", options.device, reason));
  if (!reason.empty() && options.device == "cuda") fail_agreed(Status::usage, "--device cuda: " + reason);
  gpu_ = reason.empty();
  if (options.device == "auto") why_ = gpu_ ? "auto: every rank has a GPU" : "auto: " + reason;
}

std::shared_ptr<Device> Hardware::device() {
  if (device_) return device_;
  together(session_.control(), [&] {
#if SLABLOAD_CUDA
    if (gpu_) {
      auto gpu = std::make_shared<cuda::CudaDevice>(ordinal_);
      gpu->warm_up();
      device_ = std::move(gpu);
      return;
    }
#endif
    device_ = std::make_shared<host::HostDevice>();
  });
  return device_;
}

std::unique_ptr<Fabric> Hardware::fabric() {
#if SLABLOAD_CUDA
  if (gpu_) {
    std::shared_ptr<Device> gpu = device();
    std::unique_ptr<Fabric> fabric;
    together(session_.control(), [&] {
      fabric = std::make_unique<nccl::NcclFabric>(session_.control(), static_cast<cuda::CudaDevice&>(*gpu),
                                                  nccl::NcclOptions{});
    });
    return fabric;
  }
#endif
  return std::make_unique<mpi::MpiFabric>(session_.world());
}

}  // namespace slabload
