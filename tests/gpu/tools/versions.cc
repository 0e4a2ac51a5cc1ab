// versions: what there is of CUDA, NCCL and GPUs, as one line of JSON. Exit status 3 if there is no GPU to be
// had.
#include <nccl.h>

#include "backend/cuda/probe.h"
#include "gpu/tools/tool.h"

int main() {
  using namespace slabload;  // NOLINT: this is its program
  return testing::tool_main("versions", [] {
    cuda::GpuProbe found = cuda::probe();
    int nccl = 0;
    if (ncclGetVersion(&nccl) != ncclSuccess) fail(Status::peer, "ncclGetVersion fails");
    std::string gpus;
    for (const cuda::Gpu& gpu : found.gpus) {
      gpus += fmt::format(R"({}{{"name":"{}","bytes":{},"pci":"{}"}})", gpus.empty() ? "" : ",", gpu.name,
                          gpu.bytes, gpu.pci_bus_id);
    }
    testing::print_line(fmt::format(R"({{"driver":{},"runtime":{},"nccl":{},"nccl_headers":{},"gpus":[{}]}})",
                                    found.driver_version, found.runtime_version, nccl, NCCL_VERSION_CODE,
                                    gpus));
    if (!found.usable()) fail(Status::file, "{}", found.unusable);
    return 0;
  });
}
