// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

int coroutine_io_accept(int listener, struct sockaddr *address, socklen_t *length) {
  return accept4(listener, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int coroutine_io_pipe(int ends[2]) { return pipe2(ends, O_NONBLOCK | O_CLOEXEC); }

// The kernel raises SIGPIPE on the thread that writes. So this blocks the signal on this thread, takes it away if the
// call has raised it, and unblocks it. One that was pending before belongs to other code and stays: a second one would
// merge with it. The caller does not suspend in between, since this is one call.
ssize_t coroutine_io_write_quietly(int descriptor, const struct iovec *pieces, int count) {
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigemptyset(&pending);
  sigpending(&pending);
  int was_pending = sigismember(&pending, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  ssize_t written = writev(descriptor, pieces, count);
  int error = errno;
  if (written < 0 && error == EPIPE && !was_pending) {
    struct timespec none = {0, 0};
    while (sigtimedwait(&pipe_signal, NULL, &none) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return written;
}

int coroutine_io_fail(int code) {
  errno = code;
  return -1;
}
