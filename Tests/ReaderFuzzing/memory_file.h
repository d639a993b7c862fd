// Files that have a name and lie in memory.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory_file {
  int descriptor;
  char path[32];
};

static inline struct memory_file memory_file_create(const char *name) {
  struct memory_file file = {.descriptor = memfd_create(name, MFD_CLOEXEC)};
  if (file.descriptor < 0) abort();
  snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
  return file;
}

// Gives it these contents and no others.
static inline void memory_file_fill(const struct memory_file *file, const uint8_t *bytes, size_t count) {
  if (ftruncate(file->descriptor, 0) != 0 || pwrite(file->descriptor, bytes, count, 0) != (ssize_t)count) abort();
}
