#include "kernel.h"

#include <map>

#include "stream.h"
#include "violation.h"

namespace fakecuda {
namespace {

std::map<const void*, Kernel>& kernels() {
  static auto* const kept = new std::map<const void*, Kernel>;
  return *kept;
}

std::vector<const FakeKernel*>& added() {
  static auto* const kept = new std::vector<const FakeKernel*>;
  return *kept;
}

const FakeKernel* emulation_of(const std::string& name) {
  for (const FakeKernel* emulation : added())
    if (name.find(emulation->name_part) != std::string::npos) return emulation;
  for (const FakeKernel& emulation : product_kernels())
    if (name.find(emulation.name_part) != std::string::npos) return &emulation;
  violation("the kernel %s has no emulation in the double (kernels.cc)", name.c_str());
}

}  // namespace

void register_kernel(const void* host_function, const char* name) {
  kernels()[host_function].name = name;
}

void add_emulation(const FakeKernel* emulation) {
  added().push_back(emulation);
}

Kernel* kernel_of(const void* host_function) {
  const auto found = kernels().find(host_function);
  return found == kernels().end() ? nullptr : &found->second;
}

void use_kernel(Kernel& kernel) {
  if (kernel.loaded) return;
  forbid_while_nccl_pending(("the first use of the kernel " + kernel.name).c_str());
  kernel.emulation = emulation_of(kernel.name);
  kernel.loaded = true;
}

}  // namespace fakecuda
