#ifndef CCOROUTINE_FAULTS_H
#define CCOROUTINE_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// System calls of a process that another one refuses, one by one: a filter of seccomp hands each call of some numbers to
// the supervisor, which lets it go on or answers with an error. The process itself is not changed, so what is refused is
// also what the C library calls, on all threads, with all signals blocked.

/// A kind of system call: those that one reason can refuse.
struct coroutine_fault_kind {
  const char *name;
  /// What it fails with.
  int code;
  /// Its numbers, and how many.
  int numbers[4];
  size_t count;
  /// Only calls of the runtime's own: those by the function `syscall`. The C library's locks sleep by the same call, and
  /// have no answer to a refusal.
  bool is_direct;
  /// Only calls whose third argument is this, if it is not 0: a counter's 8 bytes.
  uint64_t length;
  /// Only calls whose fourth argument has these bits: `mmap`'s flags.
  uint64_t flags;
  /// One call at a time, never all from one on: where `malloc` gets nothing any more, the Swift runtime crashes.
  bool is_single;
  /// No call is refused, but a thread sends each other one a signal every tenth of a millisecond, which ends calls with
  /// EINTR.
  bool is_storm;
};

const struct coroutine_fault_kind *coroutine_fault_kinds(size_t *count);

/// Runs `body`, which must not return, in a copy of the process. No handler for forks runs: for a process that has one
/// thread, and in which the runtime of coroutines has not begun. Returns the copy's number, or -1.
///
/// The copy is made on a new thread, whose copy is the only one there. The Swift runtime keeps each thread's number from
/// its first look on; that of a thread which has looked would be its parent's, and the locks of `static let` would hang.
pid_t coroutine_fault_fork(void (*body)(void *), void *context);

/// In the child: from here on its calls of that kind wait for the supervisor at the other end of `socket`. 0, or an errno
/// where the system has no such filters.
int coroutine_fault_begin(const struct coroutine_fault_kind *kind, int socket);

/// What threads have got of a storm.
struct coroutine_storm_count {
  /// How many of them got a signal.
  size_t threads;
  /// How many signals came, and how many of these ended a system call.
  size_t arrivals;
  size_t interruptions;
};

/// What the threads of that name got, which the runtime gives them; without a name: the first thread. False if these are not
/// counted.
bool coroutine_storm_count(const char *name, struct coroutine_storm_count *count);

/// How often each thread was sent a signal.
size_t coroutine_storm_round_count(void);

/// In the supervisor: the descriptor from which `coroutine_fault_take` reads, or -1.
int coroutine_fault_listen(int socket);

/// One call that waits.
struct coroutine_fault_call {
  uint64_t id;
  int number;
  /// Whether the plan may refuse it: it is of the kind, and of `process` itself and not of one that it started.
  bool counts;
};

/// The next call. False if there is none: its process has gone.
bool coroutine_fault_take(
    int listener, const struct coroutine_fault_kind *kind, pid_t process, struct coroutine_fault_call *call);

/// Lets it go on (0), or refuses it with an errno.
void coroutine_fault_answer(int listener, const struct coroutine_fault_call *call, int code);

#endif
