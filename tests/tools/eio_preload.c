/* LD_PRELOAD library: reads of one file fail with EIO, as from a broken disk.
 *   SLABLOAD_EIO_PATH    the file; reads of any other pass
 *   SLABLOAD_EIO_OFFSET  first broken byte (default 0)
 *   SLABLOAD_EIO_LENGTH  number of broken bytes (default: to the end)
 *   SLABLOAD_EIO_RANK    the one rank that sees it (default: all), by OMPI_COMM_WORLD_RANK or SLURM_PROCID
 * A read that touches a broken byte fails whole. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kept_env.h"

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static unsigned long long number(const char* name, unsigned long long otherwise) {
  const char* text = kept_env(name);
  return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static int this_rank(void) {
  const char* wanted = kept_env("SLABLOAD_EIO_RANK");
  if (!wanted || !*wanted) return 1;
  const char* rank = kept_env("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = kept_env("SLURM_PROCID");
  return rank && strcmp(rank, wanted) == 0;
}

static int broken(int fd, off64_t offset, size_t bytes) {
  const char* path = kept_env("SLABLOAD_EIO_PATH");
  if (!path || offset < 0 || bytes == 0 || !this_rank()) return 0;
  char link[64], opened[PATH_MAX], wanted[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, opened, sizeof opened - 1);
  if (length <= 0) return 0;
  opened[length] = '\0';
  if (strcmp(opened, path) != 0 && (!realpath(path, wanted) || strcmp(opened, wanted) != 0)) return 0;
  unsigned long long first = number("SLABLOAD_EIO_OFFSET", 0);
  unsigned long long count = number("SLABLOAD_EIO_LENGTH", ULLONG_MAX);
  unsigned long long begin = (unsigned long long)offset;
  return begin + bytes > first && (begin < first || begin - first < count);
}

static size_t total(const struct iovec* parts, int count) {
  size_t sum = 0;
  for (int i = 0; i < count; ++i) sum += parts[i].iov_len;
  return sum;
}

#define FAIL_IF_BROKEN(fd, offset, bytes) \
  do {                                    \
    int saved = errno;                    \
    if (broken(fd, offset, bytes)) {      \
      errno = EIO;                        \
      return -1;                          \
    }                                     \
    errno = saved;                        \
  } while (0)

ssize_t read(int fd, void* to, size_t bytes) {
  if (kept_env("SLABLOAD_EIO_PATH")) FAIL_IF_BROKEN(fd, lseek64(fd, 0, SEEK_CUR), bytes);
  return NEXT(read)(fd, to, bytes);
}

ssize_t readv(int fd, const struct iovec* parts, int count) {
  if (kept_env("SLABLOAD_EIO_PATH")) FAIL_IF_BROKEN(fd, lseek64(fd, 0, SEEK_CUR), total(parts, count));
  return NEXT(readv)(fd, parts, count);
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  FAIL_IF_BROKEN(fd, offset, bytes);
  return NEXT(pread)(fd, to, bytes, offset);
}

ssize_t pread64(int fd, void* to, size_t bytes, off64_t offset) {
  FAIL_IF_BROKEN(fd, offset, bytes);
  return NEXT(pread64)(fd, to, bytes, offset);
}

ssize_t preadv(int fd, const struct iovec* parts, int count, off_t offset) {
  FAIL_IF_BROKEN(fd, offset, total(parts, count));
  return NEXT(preadv)(fd, parts, count, offset);
}

ssize_t preadv64(int fd, const struct iovec* parts, int count, off64_t offset) {
  FAIL_IF_BROKEN(fd, offset, total(parts, count));
  return NEXT(preadv64)(fd, parts, count, offset);
}

ssize_t preadv2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  FAIL_IF_BROKEN(fd, offset, total(parts, count));
  return NEXT(preadv2)(fd, parts, count, offset, flags);
}
