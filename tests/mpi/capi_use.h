/* The C interface used from C. */
#ifndef SLABLOAD_TESTS_CAPI_USE_H_
#define SLABLOAD_TESTS_CAPI_USE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Walks the index, asks for this rank's boxes, loads, and compares the boxes with what was loaded.
 * Collective. Returns 0, or 1 with a reason in `why`. `sum` gets the sum of the values of all bytes that the
 * rank holds. */
int capi_use(int communicator, uint64_t rank, uint64_t ranks, const char* path, uint64_t* sum, char* why,
             size_t why_bytes);

#ifdef __cplusplus
}
#endif

#endif
