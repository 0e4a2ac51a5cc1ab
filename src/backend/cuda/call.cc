#include "backend/cuda/call.h"

namespace slabload::cuda {

void fail_call(cudaError_t code, const char* call, const std::string& where) {
  (void)cudaGetLastError();
  fail(Status::peer, "{}: {} ({}) [{}]", call, cudaGetErrorString(code), cudaGetErrorName(code), where);
}

}  // namespace slabload::cuda
