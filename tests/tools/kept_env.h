/* The environment as it was when the process began, for libraries that stand in front of system calls: the program changes its
 * own environment while threads of MPI's are in such calls, and getenv beside setenv reads freed memory. */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char** kept_all;

__attribute__((constructor)) static void keep_env(void) {
  size_t count = 0;
  while (environ[count]) ++count;
  char** all = calloc(count + 1, sizeof *all);
  for (size_t i = 0; all && i < count; ++i) all[i] = strdup(environ[i]);
  kept_all = all;
}

static const char* kept_env(const char* name) {
  if (!kept_all) return getenv(name); /* earlier still: no threads yet */
  const size_t length = strlen(name);
  for (char** one = kept_all; *one; ++one) {
    if (strncmp(*one, name, length) == 0 && (*one)[length] == '=') return *one + length + 1;
  }
  return NULL;
}
