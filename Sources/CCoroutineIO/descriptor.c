// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "CCoroutineIO.h"

int coroutine_io_adopt(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return -errno;
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return -EPERM;
  int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) return -errno;
  if (!(flags & O_NONBLOCK) && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) return -errno;
  int own = fcntl(descriptor, F_GETFD);
  if (own < 0) return -errno;
  if (!(own & FD_CLOEXEC) && fcntl(descriptor, F_SETFD, own | FD_CLOEXEC) != 0) return -errno;
  return 0;
}

bool coroutine_io_is_ready(int descriptor, bool to_write) {
  struct pollfd look = {.fd = descriptor, .events = to_write ? POLLOUT : POLLIN | POLLRDHUP | POLLPRI};
  return poll(&look, 1, 0) > 0;
}

void coroutine_io_close(int descriptor) { close(descriptor); }

int coroutine_io_errno(void) { return errno; }

const char *coroutine_io_error_name(int code) {
#if defined(__GLIBC__)
  return strerrorname_np(code);
#else
  (void)code;
  return NULL;
#endif
}
