// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// Opens the file that a descriptor with O_PATH names. It is the same file, whatever the name leads to by now.
static int open_named(int name, const char *path, const struct stat *looked_at) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", name);
  int file = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file >= 0 || errno != ENOENT) return file;
  // No /proc: by the name, and only if it still is the one that was looked at.
  file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (file < 0) return -1;
  if (fstat(file, &status) == 0 && status.st_dev == looked_at->st_dev && status.st_ino == looked_at->st_ino) return file;
  close(file);
  errno = EINVAL;
  return -1;
}

int coroutine_open_regular_file(const char *path) {
  // O_PATH finds the file and does not open it.
  int name = open(path, O_PATH | O_CLOEXEC), file = -1;
  if (name < 0) return -1;
  struct stat status;
  if (fstat(name, &status) != 0 || !S_ISREG(status.st_mode)) errno = EINVAL;
  else file = open_named(name, path, &status);
  int code = errno;
  close(name);
  errno = code;
  return file;
}
