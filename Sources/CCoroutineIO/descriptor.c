// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#include "CCoroutineIO.h"

int coroutine_io_adopt(int descriptor) {
  int flags = fcntl(descriptor, F_GETFL);
  int own = fcntl(descriptor, F_GETFD);
  if (flags < 0 || own < 0) return -errno;
  if (!(flags & O_NONBLOCK) && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) return -errno;
  // A standard stream stays what children inherit.
  if (descriptor <= 2 || own & FD_CLOEXEC || fcntl(descriptor, F_SETFD, own | FD_CLOEXEC) == 0) return 0;
  int error = errno;
  fcntl(descriptor, F_SETFL, flags);
  return -error;
}

// A program that was started without one of its standard streams would get that number for a file or a socket of its own, and
// what it prints would be written there.
__attribute__((constructor)) void coroutine_io_fill_standard_numbers(void) {
  for (int number = 0; number <= 2; number++) {
    if (fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free: this one, unless another thread has just opened something.
    int null = open("/dev/null", O_RDWR);
    if (null > 2) close(null);
  }
}

int coroutine_io_open_standard(int number, int mode) {
  struct stat status;
  if (fstat(number, &status) != 0) return -errno;
  // O_NONBLOCK belongs to the open file, which other processes may share: a new one of the same pipe or terminal does not. Of a
  // file they share the position, which a new one would not have. A socket can't be opened, and is used by calls that never block.
  int copy;
  if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || S_ISSOCK(status.st_mode)) {
    copy = fcntl(number, F_DUPFD_CLOEXEC, 3);
  } else {
    char path[sizeof "/proc/self/fd/" + 11];
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    int flags = O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    copy = open(path, mode | flags);
    // A FIFO without a reader refuses its writers, while those that have it open already get EPIPE. So does this one.
    if (copy < 0 && errno == ENXIO && mode == O_WRONLY && S_ISFIFO(status.st_mode)) {
      int reader = open(path, O_RDONLY | flags);
      if (reader >= 0) {
        copy = open(path, mode | flags);
        close(reader);
      }
    }
    // To the kernel a FIFO that was opened when its writers had gone is one whose writers are still to come: it never reports the
    // end. It does where there is a writer at the moment of the open.
    struct pollfd look = {.fd = number};
    if (copy >= 0 && mode == O_RDONLY && S_ISFIFO(status.st_mode) && poll(&look, 1, 0) > 0 && look.revents & POLLHUP) {
      int writer = open(path, O_WRONLY | flags);
      int again = writer < 0 ? -1 : open(path, mode | flags);
      if (again >= 0) {
        close(copy);
        copy = again;
      }
      if (writer >= 0) close(writer);
    }
  }
  return copy < 0 ? -errno : copy;
}

// The same question, for where `poll` is refused: `select` asks no limit of descriptors, but its sets end at 1023.
static int look_by_select(int descriptor, bool to_write) {
  if (descriptor >= FD_SETSIZE) return -1;
  fd_set wanted, urgent;
  FD_ZERO(&wanted);
  FD_ZERO(&urgent);
  FD_SET(descriptor, &wanted);
  if (!to_write) FD_SET(descriptor, &urgent);
  struct timeval now = {0};
  return select(descriptor + 1, to_write ? NULL : &wanted, to_write ? &wanted : NULL, &urgent, &now);
}

bool coroutine_io_is_ready(int descriptor, bool to_write) {
  struct pollfd look = {.fd = descriptor, .events = to_write ? POLLOUT : POLLIN | POLLRDHUP | POLLPRI};
  int count;
  // Again after a signal: "not ready" would be a waiter that is not woken.
  do count = poll(&look, 1, 0);
  while (count < 0 && errno == EINTR);
  // Refused, as by a limit of no descriptors (RLIMIT_NOFILE) or a filter.
  if (count < 0) count = look_by_select(descriptor, to_write);
  // Refused, too: its event may have come already, and no other would.
  return count != 0;
}

int coroutine_io_close(int descriptor) { return close(descriptor) == 0 || errno == EINTR ? 0 : -errno; }

int coroutine_io_errno(void) { return errno; }

const char *coroutine_io_error_name(int code) {
#if defined(__GLIBC__)
  return strerrorname_np(code);
#else
  (void)code;
  return NULL;
#endif
}
