// Limits, faults, versions, and what the NCCL double asks for.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "case.h"
#include "fakes/cuda/kernel.h"
#include "nccl_like.h"

using namespace doubles;

extern "C" void fakecuda_add_kernel(const void*, const fakecuda::FakeKernel*);

namespace {

// The exit status of `run` in a child, or minus the signal that ended it. The parent must not have used CUDA.
int status_of_child(void (*run)()) {
  const pid_t child = fork();
  if (child == 0) {
    run();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

RIGHT(memory_to_the_byte) {
  setenv("SLABLOAD_FAKE_MEMORY", "1000", 1);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 1001) == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
  std::byte* const most = device(999);
  std::byte* const last = device(1);
  REQUIRE(reinterpret_cast<std::uintptr_t>(most) % 256 == 0 &&
          reinterpret_cast<std::uintptr_t>(last) % 256 == 0);
  REQUIRE(cudaMalloc(&memory, 1) == cudaErrorMemoryAllocation);
  std::size_t left = 1, all = 0;
  OK(cudaMemGetInfo(&left, &all));
  REQUIRE(left == 0 && all == 1000);
  OK(cudaFree(last));
  REQUIRE(HOOK(fakecuda_charge)(2) == cudaErrorMemoryAllocation);
  OK(HOOK(fakecuda_charge)(1));
  REQUIRE(cudaMalloc(&memory, 1) == cudaErrorMemoryAllocation);
  HOOK(fakecuda_uncharge)(1);
  OK(cudaFree(device(1)));
  OK(cudaFree(most));
  OK(cudaFree(nullptr));
  OK(cudaMalloc(&memory, 0));
  REQUIRE(memory == nullptr);
}

RIGHT(faults_at_their_call) {
  setenv("SLABLOAD_FAKE_FAULT",
         "0:cudaMemsetAsync:2:1;0:cudaEventRecord:2:skip;1:cudaMalloc:1:2;0:cudaGetDevice:1:700", 1);
  std::byte* const memory = device(100);
  cudaStream_t const queue = stream();
  cudaEvent_t const mark = event();
  OK(cudaMemsetAsync(memory, 1, 100, queue));
  OK(cudaEventRecord(mark, queue));
  poll(mark);
  REQUIRE(cudaMemsetAsync(memory, 1, 100, queue) == cudaErrorInvalidValue);
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  OK(cudaMemsetAsync(memory, 1, 100, queue));
  OK(cudaEventRecord(mark, queue));  // left out: the event still means what it recorded first
  OK(cudaEventQuery(mark));
  OK(cudaStreamDestroy(queue));  // after a fault, this and cudaFree wait for what is in use
  OK(cudaEventDestroy(mark));
  OK(cudaFree(memory));
  int current = 0;
  REQUIRE(cudaGetDevice(&current) == cudaErrorIllegalAddress);
  REQUIRE(cudaSetDevice(0) == cudaErrorIllegalAddress);  // for ever
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
}

RIGHT(a_fault_that_kills) {
  setenv("SLABLOAD_FAKE_FAULT", "0:*:3:kill", 1);
  const auto calls = [] {
    OK(cudaSetDevice(1));
    OK(cudaSetDevice(1));
    OK(cudaSetDevice(1));
  };
  REQUIRE(status_of_child(calls) == -SIGKILL);
}

RIGHT(no_driver) {
  setenv("SLABLOAD_FAKE_DRIVER", "0", 1);
  int version = -1, count = -5;
  OK(cudaDriverGetVersion(&version));
  REQUIRE(version == 0);
  OK(cudaRuntimeGetVersion(&version));
  REQUIRE(version == CUDART_VERSION);
  REQUIRE(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver && count == -5);
  REQUIRE(cudaSetDevice(0) == cudaErrorInsufficientDriver);
  REQUIRE(std::strcmp(cudaGetErrorName(cudaErrorInsufficientDriver), "cudaErrorInsufficientDriver") == 0);
}

RIGHT(no_device) {
  setenv("SLABLOAD_FAKE_GPUS", "0", 1);
  int count = -5;
  REQUIRE(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
}

RIGHT(devices_and_versions) {
  setenv("SLABLOAD_FAKE_GPUS", "3", 1);
  setenv("SLABLOAD_FAKE_CUDA_VERSION", "0:12080", 1);
  int count = 0, version = 0, current = -1, value = 0;
  OK(cudaGetDeviceCount(&count));
  REQUIRE(count == 3);
  OK(cudaRuntimeGetVersion(&version));
  REQUIRE(version == 12080);
  REQUIRE(cudaSetDevice(3) == cudaErrorInvalidDevice);
  REQUIRE(HOOK(fakecuda_device)() == -1);
  OK(cudaSetDevice(2));
  OK(cudaGetDevice(&current));
  REQUIRE(current == 2 && HOOK(fakecuda_device)() == 2 && HOOK(fakecuda_rank)() == 0);
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 2));
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 2));
  REQUIRE(value == properties.multiProcessorCount && properties.name[0] != 0);
  char bus[16], other_bus[16];
  OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 2));
  OK(cudaDeviceGetPCIBusId(other_bus, sizeof other_bus, 1));
  REQUIRE(std::strlen(bus) == 12 && std::strcmp(bus, other_bus) != 0);
}

RIGHT(figures_at_exit) {
  char folder[] = "/tmp/slabload-stats-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  setenv("SLABLOAD_FAKE_STATS", folder, 1);
  setenv("OMPI_COMM_WORLD_RANK", "5", 1);
  const auto use = [] {
    cudaStream_t const queue = stream();
    std::byte* const memory = device(300);
    std::byte* const slot = pinned(200);
    fill(slot, 200, 1);
    OK(cudaFree(device(50)));
    in(memory, slot, 200, queue);
    OK(cudaMemcpyAsync(memory + 200, memory, 100, cudaMemcpyDeviceToDevice, queue));
    HOOK(fakecuda_count)("nccl_send", 77);
    OK(cudaStreamSynchronize(queue));
    OK(cudaFree(memory));
    OK(cudaFreeHost(slot));
    OK(cudaStreamDestroy(queue));
  };
  REQUIRE(status_of_child(use) == 0);
  const std::string path = std::string(folder) + "/rank-5.json";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  for (const char* part : {"\"peak_device_bytes\": 350", "\"peak_pinned_bytes\": 200", "\"cudaMalloc\": 2",
                           "\"total_calls\": 11", "\"h2d\": 200", "\"d2d\": 100", "\"d2h\": 0",
                           "\"nccl_send\": 77", "\"nccl_recv\": 0", "\"leaks\": []"})
    REQUIRE(text.str().find(part) != std::string::npos);
  unlink(path.c_str());
  rmdir(folder);
}

// Left over is left over, but a process that fails has other things to tell.
RIGHT(leaks_are_for_those_who_succeed) {
  const auto fails = [] {
    device(1);
    std::exit(4);
  };
  REQUIRE(status_of_child(fails) == 4);
  setenv("SLABLOAD_FAKE_LEAKS", "allow", 1);
  const auto leaks = [] { device(1); };
  REQUIRE(status_of_child(leaks) == 0);
}

// An operation of NCCL holds its own stream up, and no other.
RIGHT(nccl_operation) {
  std::byte* const memory = device(100);
  cudaStream_t const load = stream(), wire = stream();
  cudaEvent_t const loaded = event(), moved = event(), other = event();
  bool gate = false;
  OK(cudaMemsetAsync(memory, 1, 50, load));
  OK(cudaEventRecord(loaded, load));
  OK(cudaStreamWaitEvent(wire, loaded, 0));
  nccl(wire, {{memory, 50, 0}, {memory, 100, 1}}, &gate);
  OK(cudaEventRecord(moved, wire));
  OK(cudaEventRecord(other, load));
  poll(other);
  for (int i = 0; i < 100; ++i) REQUIRE(cudaEventQuery(moved) == cudaErrorNotReady);
  gate = true;
  poll(moved);
  std::byte back[100];
  REQUIRE(HOOK(fakecuda_alias)(memory, 101) == nullptr);
  std::memcpy(HOOK(fakecuda_alias)(memory + 50, 50), "unpacked", 8);
  OK(cudaMemcpy(back, memory, 100, cudaMemcpyDeviceToHost));
  REQUIRE(std::memcmp(back + 50, "unpacked", 8) == 0 && back[0] == std::byte{1});
  for (cudaEvent_t one : {loaded, moved, other}) OK(cudaEventDestroy(one));
  for (cudaStream_t one : {load, wire}) OK(cudaStreamDestroy(one));
  OK(cudaFree(memory));
}

RIGHT(nccl_operation_that_fails) {
  std::byte* const memory = device(100);
  cudaStream_t const wire = stream();
  cudaEvent_t const moved = event();
  const FakeAccess access{memory, 100, 1};
  OK(HOOK(fakecuda_enqueue)(wire, "ncclBroadcast", &access, 1, step_fails, nullptr, nullptr));
  OK(cudaEventRecord(moved, wire));
  cudaError_t answer = cudaErrorNotReady;
  for (int tries = 0; answer == cudaErrorNotReady && tries < 100000; ++tries) answer = cudaEventQuery(moved);
  REQUIRE(answer == cudaErrorUnknown && cudaStreamQuery(wire) == cudaErrorUnknown);
  OK(cudaEventDestroy(moved));
  OK(cudaStreamDestroy(wire));
  OK(cudaFree(memory));
}

// Another process of this user sees the memory through its file.
RIGHT(device_memory_of_another_process) {
  std::byte* const memory = device(5000);
  cudaStream_t const queue = stream();
  OK(cudaMemsetAsync(memory, 42, 5000, queue));
  OK(cudaStreamSynchronize(queue));
  int descriptor = -1;
  std::uint64_t offset = 0;
  REQUIRE(HOOK(fakecuda_locate)(memory + 1000, 4001, &descriptor, &offset) == -1);
  REQUIRE(HOOK(fakecuda_locate)(memory + 1000, 4000, &descriptor, &offset) == 0);
  const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor);
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  REQUIRE(file.get() == 42);
  OK(cudaStreamDestroy(queue));
  OK(cudaFree(memory));
}

namespace {

// Stands for a kernel: out[i] = in[i] + 1 for 10 bytes each.
void add_one_stub() {}

const fakecuda::FakeKernel add_one{
    "add_one", [](dim3, dim3, void** args, std::vector<fakecuda::Access>& accesses) {
      auto* const from = *static_cast<std::byte**>(args[0]);
      auto* const to = *static_cast<std::byte**>(args[1]);
      accesses = {fakecuda::reads(from, 10), fakecuda::writes(to, 10)};
      return std::function<void()>([from, to] {
        const auto* in = static_cast<std::byte*>(HOOK(fakecuda_alias)(from, 10));
        auto* out = static_cast<std::byte*>(HOOK(fakecuda_alias)(to, 10));
        for (int i = 0; i < 10; ++i) out[i] = static_cast<std::byte>(std::to_integer<int>(in[i]) + 1);
      });
    }};

}  // namespace

RIGHT(kernels_are_emulated) {
  const void* const kernel = reinterpret_cast<const void*>(add_one_stub);
  std::byte* const memory = device(20);
  cudaStream_t const queue = stream();
  std::byte* to = memory + 10;
  std::byte* from = memory;
  void* args[] = {&from, &to};
  REQUIRE(cudaLaunchKernel(kernel, dim3(1), dim3(32), args, 0, queue) == cudaErrorInvalidDeviceFunction);
  HOOK(fakecuda_add_kernel)(kernel, &add_one);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, kernel));
  OK(cudaMemsetAsync(memory, 3, 10, queue));
  OK(cudaLaunchKernel(kernel, dim3(1), dim3(32), args, 0, queue));
  to = from = nullptr;  // the launch has taken its arguments
  OK(cudaStreamSynchronize(queue));
  std::byte back[20];
  OK(cudaMemcpy(back, memory, 20, cudaMemcpyDeviceToHost));
  REQUIRE(back[9] == std::byte{3} && back[10] == std::byte{4} && back[19] == std::byte{4});
  OK(cudaStreamDestroy(queue));
  OK(cudaFree(memory));
}
