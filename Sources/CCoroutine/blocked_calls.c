// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "blocked_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum coroutine_thread_look coroutine_blocked_call_of(pid_t thread, struct coroutine_blocked_call *call) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return COROUTINE_THREAD_UNKNOWN;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return COROUTINE_THREAD_UNKNOWN;
  text[count] = 0;
  call->thread = thread;
  uint64_t *arguments = call->arguments;
  // A thread that runs, and one that waits for its memory, have fewer fields.
  int fields = sscanf(text, "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
                      &call->number, &arguments[0], &arguments[1], &arguments[2], &arguments[3], &arguments[4],
                      &arguments[5], &call->stack_pointer);
  return fields == 8 ? COROUTINE_THREAD_IN_CALL : COROUTINE_THREAD_ELSEWHERE;
}

bool coroutine_blocked_call_on(uintptr_t bottom, uintptr_t top, struct coroutine_blocked_call *call) {
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return false;
  bool found = false;
  for (struct dirent *entry; !found && (entry = readdir(tasks));) {
    pid_t thread = atoi(entry->d_name);
    found = thread != 0 && coroutine_blocked_call_of(thread, call) == COROUTINE_THREAD_IN_CALL &&
            bottom <= call->stack_pointer && call->stack_pointer < top;
  }
  closedir(tasks);
  return found;
}

#define NAME(call) {SYS_##call, #call}

static const struct { long number; const char *name; } names[] = {
  NAME(read), NAME(readv), NAME(pread64), NAME(preadv), NAME(write), NAME(writev), NAME(pwrite64), NAME(pwritev),
  NAME(openat), NAME(ioctl), NAME(fcntl), NAME(flock), NAME(fsync), NAME(fdatasync), NAME(sendfile), NAME(splice),
  NAME(accept), NAME(accept4), NAME(connect), NAME(recvfrom), NAME(recvmsg), NAME(recvmmsg), NAME(sendto), NAME(sendmsg),
  NAME(sendmmsg), NAME(futex), NAME(nanosleep), NAME(clock_nanosleep), NAME(ppoll), NAME(pselect6), NAME(epoll_pwait),
  NAME(wait4), NAME(waitid), NAME(rt_sigtimedwait), NAME(rt_sigsuspend), NAME(semop), NAME(semtimedop), NAME(msgrcv),
  NAME(msgsnd), NAME(mq_timedreceive), NAME(mq_timedsend), NAME(io_getevents), NAME(io_uring_enter), NAME(restart_syscall),
#ifdef SYS_epoll_pwait2
  NAME(epoll_pwait2),
#endif
#ifdef SYS_open  // only older architectures have these
  NAME(open), NAME(poll), NAME(select), NAME(epoll_wait), NAME(pause),
#endif
};

const char *coroutine_call_name(long number) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].number == number) return names[i].name;
  return NULL;
}
