// A host whose clock is wrong: below a program, the time of day is SLABLOAD_CLOCK_SHIFT seconds later (or earlier) than it
// is, on the host SLABLOAD_CLOCK_HOST alone if that is set. Clocks that only count on are left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "kept_env.h"

static long shift(void) {
  const char* seconds = kept_env("SLABLOAD_CLOCK_SHIFT");
  const char* host = kept_env("SLABLOAD_CLOCK_HOST");
  char name[256] = "";
  if (seconds == NULL) return 0;
  if (host != NULL && (gethostname(name, sizeof name - 1) != 0 || strcmp(name, host) != 0)) return 0;
  return strtol(seconds, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec* out) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, out);
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += shift();
  return status;
}

int gettimeofday(struct timeval* restrict out, void* restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
