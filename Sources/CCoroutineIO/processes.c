// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

// Beyond the standard ones: `dup2` onto one of those must not overwrite another end.
static int move_up(int *end) {
  if (*end > 2) return 0;
  int moved = fcntl(*end, F_DUPFD_CLOEXEC, 3);
  if (moved < 0) return -1;
  close(*end);
  *end = moved;
  return 0;
}

int coroutine_io_blocking_pipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  if (move_up(&ends[0]) == 0 && move_up(&ends[1]) == 0) return 0;
  int error = errno;
  close(ends[0]);
  close(ends[1]);
  errno = error;
  return -1;
}

#if defined(__GLIBC__)

static int close_from(posix_spawn_file_actions_t *actions, int first) {
  return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

#else

// Those that are open now: one that another thread opens just then, without O_CLOEXEC, leaks.
static int close_from(posix_spawn_file_actions_t *actions, int first) {
  DIR *descriptors = opendir("/proc/self/fd");
  if (!descriptors) return errno;
  int error = 0;
  struct dirent *entry;
  while (!error && (entry = readdir(descriptors)) != NULL) {
    int number = atoi(entry->d_name);
    if (number >= first) error = posix_spawn_file_actions_addclose(actions, number);
  }
  closedir(descriptors);
  return error;
}

#endif

pid_t coroutine_io_spawn(
    const char *program, char *const arguments[], char *const environment[], const char *directory, const int files[3],
    pid_t group, bool is_session) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  pid_t process = -1;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return -error;
  error = posix_spawnattr_init(&attributes);
  if (error) {
    posix_spawn_file_actions_destroy(&actions);
    return -error;
  }
  // In this order: the standard error may be a copy of what the standard output is by then.
  for (int number = 0; number < 3 && !error; number++) {
    if (files[number] >= 0) error = posix_spawn_file_actions_adddup2(&actions, files[number], number);
  }
  // Descriptors that other code opened without the flag would leak, and hold pipes and ports open.
  if (!error) error = close_from(&actions, 3);
  if (!error && directory) error = posix_spawn_file_actions_addchdir_np(&actions, directory);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (is_session) flags |= POSIX_SPAWN_SETSID;
  if (group >= 0) flags |= POSIX_SPAWN_SETPGROUP;
  if (!error && group >= 0) error = posix_spawnattr_setpgroup(&attributes, group);
  if (!error) error = posix_spawnattr_setflags(&attributes, flags);
  if (!error) error = posix_spawnp(&process, program, &actions, &attributes, arguments, environment ? environment : environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error ? -error : process;
}

char *const *coroutine_io_environment(void) { return environ; }

int coroutine_io_process_open(pid_t process) { return (int)syscall(SYS_pidfd_open, process, 0); }

int coroutine_io_process_signal(int process_descriptor, int signal) {
  return (int)syscall(SYS_pidfd_send_signal, process_descriptor, signal, NULL, 0);
}

int coroutine_io_process_wait(int process_descriptor, bool reaps, int *status, bool *is_signal) {
  siginfo_t info = {0};
  int result;
  do {
    result = waitid((idtype_t)P_PIDFD, (id_t)process_descriptor, &info, WEXITED | WNOHANG | (reaps ? 0 : WNOWAIT));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return -1;
  if (info.si_pid == 0) return 0;
  *status = info.si_status;
  *is_signal = info.si_code != CLD_EXITED;
  return 1;
}
