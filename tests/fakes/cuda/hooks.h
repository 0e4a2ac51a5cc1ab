/* What the NCCL double asks of the CUDA double, in the same process. All of it is called on the thread that
 * calls NCCL. */
#ifndef SLABLOAD_TESTS_FAKES_CUDA_HOOKS_H_
#define SLABLOAD_TESTS_FAKES_CUDA_HOOKS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A range of device memory that an operation reads or writes. */
struct FakeAccess {
  const void* address; /* as the product knows it */
  size_t bytes;
  int writes;
};

/* Puts an operation at the end of a stream (a cudaStream_t). Its accesses are checked for bounds, life and
 * order at once, as those of a copy are. When the stream comes to it, step(state) is called, and again
 * whenever the stream is moved on, until it returns 1 (ended) or -1 (failed: the stream's error is then
 * cudaErrorUnknown); 0 means that it can't go on yet. It must not block. drop(state) is called once, after
 * the end or when the stream is destroyed. Returns a cudaError_t. */
int fakecuda_enqueue(void* stream, const char* name, const struct FakeAccess* accesses, int count,
                     int (*step)(void*), void (*drop)(void*), void* state);

/* Moves all streams on as the mode allows; what every call of the CUDA double does on entry. */
void fakecuda_progress(void);

/* Where this process may itself read and write device memory: the private alias. NULL if the range is not
 * wholly within one live allocation. */
void* fakecuda_alias(const void* device_address, size_t bytes);

/* The same for other processes of this user: the descriptor of the memory file of the current device in this
 * process (to be opened by them as /proc/PID/fd/N), and the place in it. Returns 0, or -1 for an address that
 * is none. */
int fakecuda_locate(const void* device_address, size_t bytes, int* descriptor, uint64_t* offset);

/* Device memory that NCCL takes for itself. Returns a cudaError_t (cudaErrorMemoryAllocation if the limit is
 * reached). */
int fakecuda_charge(size_t bytes);
void fakecuda_uncharge(size_t bytes);

/* The current device's number on the host, or -1 if none was set or used. */
int fakecuda_device(void);
/* This process's rank by the launcher's environment, or 0. */
int fakecuda_rank(void);

/* Counts a call of `function` and acts out an injected fault: returns 0 to go on, or the error code to
 * return. With "hang" and "kill" it does not return. *skip becomes 1 if the call is to do nothing and report
 * success. */
int fakecuda_fault(const char* function, int* skip);

/* For tests that cause one failure after the other in a process: takes these faults in place of
 * SLABLOAD_FAKE_FAULT's, counting from now on; "" for none. */
void fakecuda_set_faults(const char* text);

/* The error that every CUDA call of this process gives from now on, because one has ended its context; 0 if
 * none has. */
int fakecuda_context_error(void);

/* Adds to a figure that is written at exit (see stats.h in this folder), such as "nccl_send". */
void fakecuda_count(const char* figure, uint64_t amount);

/* Ends the process as a test that found a fault: one line on stderr that begins "VIOLATION: ", exit
 * status 86. */
void fakecuda_violation(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));

#ifdef __cplusplus
}
#endif

#endif
