// Little programs that use CUDA rightly or wrongly; each file of them is one executable, each case one run of
// it.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace doubles {

struct Case {
  const char* name;
  const char* word;  // what the violation must say; empty for a case that must pass
  void (*run)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Registration {
  Registration(const char* name, const char* word, void (*run)()) { cases().push_back({name, word, run}); }
};

// RIGHT(name) { ... } and WRONG(name, "word of the violation") { ... }
#define DOUBLES_CASE(name, word)                                                      \
  static void case_##name();                                                          \
  static const ::doubles::Registration registration_##name(#name, word, case_##name); \
  static void case_##name()
#define RIGHT(name) DOUBLES_CASE(name, "")
#define WRONG(name, word) DOUBLES_CASE(name, word)

// Ends a case that isn't as it should be; not the status of a violation.
#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                               \
    }                                                                              \
  } while (false)
#define OK(call) REQUIRE((call) == cudaSuccess)

inline std::byte* device(std::size_t bytes) {
  void* memory = nullptr;
  OK(cudaMalloc(&memory, bytes));
  return static_cast<std::byte*>(memory);
}

inline std::byte* pinned(std::size_t bytes) {
  void* memory = nullptr;
  OK(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  return static_cast<std::byte*>(memory);
}

inline cudaStream_t stream() {
  cudaStream_t made = nullptr;
  OK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return made;
}

inline cudaEvent_t event(unsigned flags = cudaEventDefault) {
  cudaEvent_t made = nullptr;
  OK(cudaEventCreateWithFlags(&made, flags));
  return made;
}

inline void fill(std::byte* memory, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(seed + 31 * i + i / 251);
}

inline bool holds(const std::byte* memory, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (memory[i] != static_cast<std::byte>(seed + 31 * i + i / 251)) return false;
  return true;
}

// Asks until the event has passed. Asking must help in every mode.
inline void poll(cudaEvent_t asked) {
  for (int tries = 0;; ++tries) {
    const cudaError_t answer = cudaEventQuery(asked);
    if (answer == cudaSuccess) return;
    REQUIRE(answer == cudaErrorNotReady && tries < 100000);
    cudaGetLastError();
  }
}

inline void in(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t queue) {
  OK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue));
}

inline void out(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t queue) {
  OK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue));
}

// A function that only the double has; `Like` is declared, but there is nothing to link it with.
template <typename Like>
Like* hook(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Like*>(found);
}
#define HOOK(function) ::doubles::hook<decltype(function)>(#function)

}  // namespace doubles

// Every file is a program. --list prints its cases, one a line: the name, then what its violation must say.
// NAME runs a case.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const bool list = std::strcmp(argv[1], "--list") == 0;
  for (const doubles::Case& one : doubles::cases()) {
    if (list) std::printf("%s %s\n", one.name, one.word);
    if (std::strcmp(argv[1], one.name) != 0) continue;
    one.run();
    return 0;
  }
  return list ? 0 : 2;
}
