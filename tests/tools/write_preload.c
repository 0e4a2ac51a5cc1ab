/* LD_PRELOAD library: something happens at a write to a file, or at its sync.
 *   SLABLOAD_WRITE_FAULT  an errno   that write fails with it, and every later one
 *                         short      every write is made by halves: it says that less was written than was asked for
 *                         flip       one bit of what is written is another, once
 *                         hang       the write never returns
 *                         vanish     the file and its folder are removed, once; the write goes on
 *   SLABLOAD_WRITE_PATH   a part of the name of the files that count
 *   SLABLOAD_WRITE_CALL   write (default) or sync: at which calls
 *   SLABLOAD_WRITE_BYTES  only writes of at least so many bytes count (default 0), to let metadata pass
 *   SLABLOAD_WRITE_AFTER  so many of them pass before (default 0)
 *   SLABLOAD_WRITE_RANK   the one rank it happens on (default: all), by OMPI_COMM_WORLD_RANK or SLURM_PROCID */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "kept_env.h"

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long passed;
static int happened;

static long number(const char* name) {
  const char* text = kept_env(name);
  return text && *text ? strtol(text, NULL, 0) : 0;
}

static int this_rank(void) {
  const char* wanted = kept_env("SLABLOAD_WRITE_RANK");
  if (!wanted || !*wanted) return 1;
  const char* rank = kept_env("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = kept_env("SLURM_PROCID");
  return rank && strcmp(rank, wanted) == 0;
}

/* The fault if this call is one that counts, or NULL. */
static const char* fault_at(int fd, const char* call, size_t bytes, char* opened) {
  const char* fault = kept_env("SLABLOAD_WRITE_FAULT");
  const char* part = kept_env("SLABLOAD_WRITE_PATH");
  const char* wanted = kept_env("SLABLOAD_WRITE_CALL");
  if (!fault || !*fault || !part || strcmp(wanted && *wanted ? wanted : "write", call) != 0 || !this_rank()) return NULL;
  if ((long)bytes < number("SLABLOAD_WRITE_BYTES")) return NULL;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int saved = errno;
  ssize_t length = readlink(link, opened, PATH_MAX - 1);
  errno = saved;
  if (length <= 0) return NULL;
  opened[length] = '\0';
  if (!strstr(opened, part) || passed++ < number("SLABLOAD_WRITE_AFTER")) return NULL;
  return fault;
}

static ssize_t faulty_write(int fd, const void* from, size_t bytes, off64_t offset) {
  char opened[PATH_MAX];
  const char* fault = fault_at(fd, "write", bytes, opened);
  ssize_t (*next)(int, const void*, size_t, off64_t) = NEXT(pwrite64);
  if (!fault) return next(fd, from, bytes, offset);
  if (strcmp(fault, "short") == 0) return next(fd, from, bytes > 1 ? bytes / 2 : bytes, offset);
  if (strcmp(fault, "hang") == 0) {
    for (;;) pause();
  }
  if (strcmp(fault, "flip") == 0 && !happened) {
    happened = 1;
    char* copy = malloc(bytes);
    memcpy(copy, from, bytes);
    copy[bytes / 2] ^= 4;
    ssize_t done = next(fd, copy, bytes, offset);
    free(copy);
    return done;
  }
  if (strcmp(fault, "vanish") == 0 && !happened) {
    happened = 1;
    unlink(opened);
    rmdir(dirname(opened));
  }
  long code = strtol(fault, NULL, 10);
  if (code > 0) {
    errno = (int)code;
    return -1;
  }
  return next(fd, from, bytes, offset);
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) { return faulty_write(fd, from, bytes, offset); }
ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t offset) { return faulty_write(fd, from, bytes, offset); }

int fsync(int fd) {
  char opened[PATH_MAX];
  const char* fault = fault_at(fd, "sync", SIZE_MAX / 2, opened);
  if (!fault) return NEXT(fsync)(fd);
  errno = (int)strtol(fault, NULL, 10);
  return -1;
}
