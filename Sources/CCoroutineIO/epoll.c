// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "CCoroutineIO.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int result(long value) { return value < 0 ? -errno : (int)value; }

int coroutine_io_epoll_create(void) { return result(epoll_create1(EPOLL_CLOEXEC)); }

int coroutine_io_epoll_add(int set, int descriptor, uint64_t data) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET, .data.u64 = data};
  return result(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event));
}

int coroutine_io_epoll_add_wake(int set, int descriptor, uint64_t data) {
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};
  return result(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event));
}

int coroutine_io_epoll_remove(int set, int descriptor) {
  struct epoll_event event = {0};
  return result(epoll_ctl(set, EPOLL_CTL_DEL, descriptor, &event));
}

// A signal ends a wait as a time that is up does.
static int count_of(long value) { return value < 0 && errno == EINTR ? 0 : result(value); }

int coroutine_io_epoll_wait(int set, struct epoll_event *events, int limit, int64_t nanoseconds) {
  if (nanoseconds <= 0) {
    return count_of(epoll_wait(set, events, limit, nanoseconds < 0 ? -1 : 0));
  }
#ifdef SYS_epoll_pwait2
  // Linux 5.11. Before it the least time is a millisecond.
  static atomic_bool is_missing;
  if (!atomic_load_explicit(&is_missing, memory_order_relaxed)) {
    struct timespec time = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
    long count = syscall(SYS_epoll_pwait2, set, events, limit, &time, NULL, 0);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count_of(count);
    atomic_store_explicit(&is_missing, true, memory_order_relaxed);
  }
#endif
  int64_t milliseconds = (nanoseconds + 999999) / 1000000;
  return count_of(epoll_wait(set, events, limit, milliseconds > 1 << 30 ? 1 << 30 : (int)milliseconds));
}

int coroutine_io_eventfd(void) { return result(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

int coroutine_io_eventfd_add(int descriptor) {
  uint64_t one = 1;
  while (write(descriptor, &one, sizeof one) < 0) {
    // The counter is full: then it is not zero either.
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return -errno;
  }
  return 0;
}

int coroutine_io_eventfd_clear(int descriptor) {
  uint64_t count;
  while (read(descriptor, &count, sizeof count) < 0) {
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return -errno;
  }
  return 0;
}
