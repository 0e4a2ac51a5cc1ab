#include "backend/nccl/versions.h"

#include "backend/cuda/call.h"
#include "backend/cuda/probe.h"
#include "backend/nccl/call.h"
#include "base/narrow.h"

namespace slabload::nccl {
namespace {

std::string runtime_version() {
  int code = 0;
  SLABLOAD_CUDA_CALL("the version", cudaRuntimeGetVersion, &code);
  return cuda::version_text(code);
}

void check_same(Control& control, const char* what, const std::string& mine) {
  std::string wanted = control.broadcast(mine);
  auto ranks = static_cast<std::uint64_t>(control.ranks());
  std::uint64_t differs[] = {mine == wanted ? ranks : static_cast<std::uint64_t>(control.rank())};
  control.min(differs);
  if (differs[0] == ranks) return;
  std::string theirs = control.broadcast(mine, narrow<int>(differs[0]));
  fail_agreed(
      Status::peer,
      fmt::format("rank {} has {} {}, rank 0 has {}: all nodes need the same (see LD_LIBRARY_PATH there)",
                  differs[0], what, theirs, wanted));
}

}  // namespace

std::string libraries_text() {
  return fmt::format("CUDA {}, NCCL {}", runtime_version(), library_version());
}

void check_versions(Control& control) {
  std::string nccl;
  std::string cuda;
  together(control, [&] {
    nccl = library_version();
    cuda = runtime_version();
  });
  check_same(control, "NCCL", nccl);
  check_same(control, "the CUDA runtime", cuda);
}

}  // namespace slabload::nccl
