// SPDX-License-Identifier: Apache-2.0

// Child processes.
#ifndef COROUTINE_IO_PROCESSES_H
#define COROUTINE_IO_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

// A pipe whose ends block, are closed by exec, and are none of the numbers 0, 1, 2. -1 with `errno`.
int coroutine_io_blocking_pipe(int ends[2]);

// Starts a program, searched in PATH if its name has no slash, with `files` as its descriptors 0, 1, 2 (-1: the caller's; the
// last may be 1: the same as the second) and no other, and with an environment (NULL: the caller's). No signal is blocked or
// ignored in it. It joins a group of processes (-1: the caller's, 0: a new one), or begins a session. Returns the process, or
// a negated errno.
pid_t coroutine_io_spawn(
    const char *program, char *const arguments[], char *const environment[], const char *directory, const int files[3],
    pid_t group, bool is_session);

// The caller's environment, with a NULL behind the last; NULL if there is none.
char *const *coroutine_io_environment(void);

// A descriptor that can be read when the process has ended. -1 with `errno`.
int coroutine_io_process_open(pid_t process);

int coroutine_io_process_signal(int process_descriptor, int signal);

// 1: it has ended: its exit status, or the signal that ended it; it stays a zombie unless this reaps it. 0: it runs, or a
// debugger has its end first. -1 with `errno`.
int coroutine_io_process_wait(int process_descriptor, bool reaps, int *status, bool *is_signal);

#endif
