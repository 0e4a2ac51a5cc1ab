/* LD_PRELOAD library: something happens to a rank, or to a file, at a read, before the read itself is made.
 *   SLABLOAD_FAULT         truncate  the file ends at the first byte of that read from then on
 *                          touch     the file is written to (its last byte, with the same value) and goes on as it was
 *                          replace   another file, its copy, is renamed over it
 *                          kill      the rank dies by SIGKILL
 *                          hang      the read never returns
 *   SLABLOAD_FAULT_PATH    the file whose reads count; reads of any other pass
 *   SLABLOAD_FAULT_OFFSET  the first read that starts at or behind this byte is the one (default 0)
 *   SLABLOAD_FAULT_BYTES   and that is of at least so many bytes (default 0), to let metadata pass
 *   SLABLOAD_FAULT_LOCK    an errno: every flock() fails with it, of whatever file
 *   SLABLOAD_FAULT_RANK    the one rank it happens on (default: all), by OMPI_COMM_WORLD_RANK or SLURM_PROCID
 * It happens once in a process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kept_env.h"

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int happened;

static int this_rank(void) {
  const char* wanted = kept_env("SLABLOAD_FAULT_RANK");
  if (!wanted || !*wanted) return 1;
  const char* rank = kept_env("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = kept_env("SLURM_PROCID");
  return rank && strcmp(rank, wanted) == 0;
}

static int is_the_file(int fd, const char* path) {
  char link[64], opened[PATH_MAX], wanted[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, opened, sizeof opened - 1);
  if (length <= 0) return 0;
  opened[length] = '\0';
  return realpath(path, wanted) && strcmp(opened, wanted) == 0;
}

static void touch(const char* path) {
  struct stat st;
  char last;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 && fstat(fd, &st) == 0 && NEXT(pread)(fd, &last, 1, st.st_size - 1) == 1 &&
      pwrite(fd, &last, 1, st.st_size - 1) == 1) {
    close(fd);
    return;
  }
  perror("fault_preload: touch");
  _exit(99);
}

static void replace(const char* path) {
  char name[PATH_MAX], piece[65536];
  snprintf(name, sizeof name, "%s.other", path);
  int from = open(path, O_RDONLY | O_CLOEXEC);
  int to = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  off_t at = 0;
  for (ssize_t got; (got = NEXT(pread)(from, piece, sizeof piece, at)) > 0; at += got) {
    if (pwrite(to, piece, got, at) != got) break;
  }
  if (from >= 0 && to >= 0 && close(from) == 0 && close(to) == 0 && rename(name, path) == 0) return;
  perror("fault_preload: replace");
  _exit(99);
}

int flock(int fd, int operation) {
  const char* code = kept_env("SLABLOAD_FAULT_LOCK");
  if (!code || !*code) return NEXT(flock)(fd, operation);
  errno = atoi(code);
  return -1;
}

static off64_t number(const char* name) {
  const char* text = kept_env(name);
  return text ? (off64_t)strtoull(text, NULL, 0) : 0;
}

static size_t total(const struct iovec* parts, int count) {
  size_t sum = 0;
  for (int i = 0; i < count; ++i) sum += parts[i].iov_len;
  return sum;
}

static void before_read(int fd, off64_t offset, size_t bytes) {
  const char* path = kept_env("SLABLOAD_FAULT_PATH");
  const char* fault = kept_env("SLABLOAD_FAULT");
  if (happened || !path || !fault || offset < 0 || !this_rank()) return;
  if (offset < number("SLABLOAD_FAULT_OFFSET") || (off64_t)bytes < number("SLABLOAD_FAULT_BYTES")) return;
  int saved = errno;
  if (is_the_file(fd, path)) {
    happened = 1;
    if (strcmp(fault, "truncate") == 0 && truncate64(path, offset) != 0) {
      perror("fault_preload: truncate");
      _exit(99);
    }
    if (strcmp(fault, "touch") == 0) touch(path);
    if (strcmp(fault, "replace") == 0) replace(path);
    if (strcmp(fault, "kill") == 0) raise(SIGKILL);
    if (strcmp(fault, "hang") == 0) {
      for (;;) pause();
    }
  }
  errno = saved;
}

ssize_t read(int fd, void* to, size_t bytes) {
  if (kept_env("SLABLOAD_FAULT")) before_read(fd, lseek64(fd, 0, SEEK_CUR), bytes);
  return NEXT(read)(fd, to, bytes);
}

ssize_t readv(int fd, const struct iovec* parts, int count) {
  if (kept_env("SLABLOAD_FAULT")) before_read(fd, lseek64(fd, 0, SEEK_CUR), total(parts, count));
  return NEXT(readv)(fd, parts, count);
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  before_read(fd, offset, bytes);
  return NEXT(pread)(fd, to, bytes, offset);
}

ssize_t pread64(int fd, void* to, size_t bytes, off64_t offset) {
  before_read(fd, offset, bytes);
  return NEXT(pread64)(fd, to, bytes, offset);
}

ssize_t preadv(int fd, const struct iovec* parts, int count, off_t offset) {
  before_read(fd, offset, total(parts, count));
  return NEXT(preadv)(fd, parts, count, offset);
}

ssize_t preadv64(int fd, const struct iovec* parts, int count, off64_t offset) {
  before_read(fd, offset, total(parts, count));
  return NEXT(preadv64)(fd, parts, count, offset);
}
