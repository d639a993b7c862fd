// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "census.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blocked_calls.h"
#include "inspection.h"
#include "running.h"
#include "signals.h"

enum { most_threads = 4096 };

// MARK: Files

// What a file in /proc says; empty if it can't be read.
static bool read_file(const char *path, char *buffer, size_t size) {
  buffer[0] = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t count = read(file, buffer, size - 1);
  close(file);
  buffer[count > 0 ? count : 0] = 0;
  return count > 0;
}

static bool is_kind(unsigned long descriptor, const char *kind) {
  char path[64], target[64];
  snprintf(path, sizeof path, "/proc/self/fd/%lu", descriptor);
  ssize_t count = readlink(path, target, sizeof target - 1);
  if (count < 0) return false;
  target[count] = 0;
  return strcmp(target, kind) == 0;
}

static bool read_information(unsigned long descriptor, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%lu", descriptor);
  return read_file(path, text, size);
}

static bool has_descriptor(const char *kind) {
  DIR *descriptors = opendir("/proc/self/fd");
  if (!descriptors) return true;
  bool found = false;
  for (struct dirent *entry; !found && (entry = readdir(descriptors));)
    found = entry->d_name[0] != '.' && is_kind(strtoul(entry->d_name, NULL, 10), kind);
  closedir(descriptors);
  return found;
}

// MARK: Eventfds

// A process that has forked, or was made by a fork, or was started with eventfds: another process has the same ones, or
// handed them on before it ended.
static atomic_bool has_forked;
static pid_t loaded_in;  // for a fork that calls no handlers
static void note_fork(void) { atomic_store(&has_forked, true); }

__attribute__((constructor)) static void at_load(void) {
  loaded_in = getpid();
  pthread_atfork(NULL, note_fork, note_fork);
  // If the process was started with an eventfd, its parent has it too.
  if (has_descriptor("anon_inode:[eventfd]")) note_fork();
}

static bool has_relatives(void) {
  if (atomic_load(&has_forked) || getpid() != loaded_in) return true;
  siginfo_t child;
  return waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

// Whether the kernel itself may write to eventfds: it does so when an asynchronous call that names one has ended. Both
// kinds of such calls share memory with the kernel. (A ring may be without a descriptor, or without that memory.)
static bool has_asynchronous_calls(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return true;
  bool found = false;
  char line[512];
  while (!found && fgets(line, sizeof line, maps)) found = strstr(line, " /[aio]") || strstr(line, "anon_inode:[io_uring]");
  fclose(maps);
  return found || has_descriptor("anon_inode:[io_uring]");
}

struct census {
  const void *idle_mark;
  enum { unknown, own, others } eventfds;  // asked once in a look, and only if there is an eventfd
};

// An eventfd that only threads of this process can write to, unless it was handed to another process over a socket, or
// to a driver: a child, or any program that it runs, would have it too.
static bool is_own_eventfd(struct census *census, unsigned long descriptor) {
  if (!is_kind(descriptor, "anon_inode:[eventfd]")) return false;
  char text[512];
  unsigned flags;
  const char *line = read_information(descriptor, text, sizeof text) ? strstr(text, "flags:") : NULL;
  if (!line || sscanf(line, "flags: %o", &flags) != 1 || !(flags & O_CLOEXEC)) return false;
  if (census->eventfds == unknown) census->eventfds = has_relatives() || has_asynchronous_calls() ? others : own;
  return census->eventfds == own;
}

static bool is_idle_timer(unsigned long descriptor) {
  if (!is_kind(descriptor, "anon_inode:[timerfd]")) return false;
  char text[512];
  return read_information(descriptor, text, sizeof text) && strstr(text, "it_value: (0, 0)");
}

// Whether no other process could make anything in an epoll set ready: events of the process, timers that are off.
static bool is_private_set(struct census *census, unsigned long descriptor) {
  char text[4096];
  if (!read_information(descriptor, text, sizeof text) || strlen(text) == sizeof text - 1) return false;
  for (const char *line = strstr(text, "tfd:"); line; line = strstr(line + 1, "tfd:")) {
    unsigned long member, node;
    struct stat file;
    // The number may be another file's by now, while the set still has the one that it was.
    if (sscanf(line, "tfd: %lu events: %*x data: %*x pos:%*d ino:%lx", &member, &node) != 2 ||
        fstat((int)member, &file) != 0 || file.st_ino != node ||
        !(coroutine_is_poller_wake((int)member) || is_own_eventfd(census, member) || is_idle_timer(member)))
      return false;
  }
  return true;
}

// Whether no other process can have the memory at an address.
static bool is_private_memory(unsigned long address) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return false;
  bool is_private = false;
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    unsigned long start, end;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3 || address < start || address >= end) continue;
    is_private = rights[3] == 'p';
    break;
  }
  fclose(maps);
  return is_private;
}

// MARK: Signals

static bool is_in_library(const void *address, const char *library) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, library);
}

// A handler that may wake a thread: the sender of the signal can't be seen. Left out are signals that come of what a
// thread itself does at that moment, and handlers that are known to wake no thread.
static int signal_with_handler(void) {
  for (int signal = 1; signal < NSIG; signal++) {
    switch (signal) {
      case SIGSEGV: case SIGBUS: case SIGILL: case SIGFPE: case SIGTRAP: case SIGABRT: case SIGSYS: case SIGPIPE:
      case SIGPROF: case SIGVTALRM: case SIGXCPU: case SIGXFSZ: continue;
      default: break;
    }
    struct sigaction action;
    // The C library does not report the handlers of its own signals.
    if (sigaction(signal, NULL, &action) != 0 || coroutine_signals_handles(&action) || coroutine_running_handles(&action)) continue;
    // The two ways to write a handler lie in the same place.
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) continue;
    if (!is_in_library((const void *)(uintptr_t)action.sa_handler, "libswiftCore.so")) return signal;
  }
  return 0;
}

// MARK: One thread

// Where an idle thread of Dispatch waits for work, for a few seconds, and then ends: its semaphore is the library's own.
static bool is_dispatchs_own(unsigned long address) { return is_in_library((const void *)address, "libdispatch.so"); }

static const char *in_futex(const unsigned long *arguments, const void *idle_mark) {
  unsigned operation = (unsigned)arguments[1];
  switch (operation & (unsigned)FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI: break;
    default: return "waits in a system call";
  }
  // pthread_join's may be shared, though no other process has the memory.
  if (!(operation & FUTEX_PRIVATE_FLAG) && !is_private_memory(arguments[0])) return "waits for another process";
  if (arguments[3] == 0 || arguments[4] == (unsigned long)idle_mark || is_dispatchs_own(arguments[0])) return NULL;
  return "waits until a deadline";
}

// NULL: a thread that waits like this can't go on by itself.
static const char *in_call(struct census *census, pid_t thread, long number, const unsigned long *arguments) {
  switch (number) {
    case SYS_futex: return in_futex(arguments, census->idle_mark);
    case SYS_rt_sigsuspend:
#ifdef SYS_pause
    case SYS_pause:
#endif
      return NULL;
    case SYS_read:
      if (thread == coroutine_signals_waiting_thread() || coroutine_overflow_waits_at((int)arguments[0])) return NULL;
      return is_own_eventfd(census, arguments[0]) ? NULL : "reads from a file or the network";
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
      return (int)arguments[3] == -1 && is_private_set(census, arguments[0]) ? NULL : "waits for events or a time";
    default: return "waits in a system call";
  }
}

struct seen {
  pid_t thread;
  // How often it has left its processor: if the number is the same twice, it has not run in between.
  unsigned long switches;
};

static bool read_switches(const char *status, unsigned long *count) {
  static const char voluntary[] = "\nvoluntary_ctxt_switches:", forced[] = "\nnonvoluntary_ctxt_switches:";
  const char *first = strstr(status, voluntary), *second = strstr(status, forced);
  if (!first || !second) return false;
  *count = strtoul(first + strlen(voluntary), NULL, 10) + strtoul(second + strlen(forced), NULL, 10);
  return true;
}

// NULL: it can't go on by itself.
static const char *look(struct census *census, struct seen *seen, bool again) {
  char path[64], status[16384];
  const char *what = "runs";
  // The count is read on the outer side of the two looks at the call.
  for (int step = 0; step < 2; step++) {
    if ((step == 0) == again) {
      struct coroutine_blocked_call call;
      switch (coroutine_blocked_call_of(seen->thread, &call)) {
        case COROUTINE_THREAD_UNKNOWN: what = "can't be looked at"; break;
        case COROUTINE_THREAD_ELSEWHERE: break;
        case COROUTINE_THREAD_IN_CALL: what = in_call(census, seen->thread, call.number, call.arguments); break;
      }
    } else {
      snprintf(path, sizeof path, "/proc/self/task/%d/status", seen->thread);
      if (!read_file(path, status, sizeof status) || !read_switches(status, &seen->switches)) return "can't be looked at";
    }
  }
  // It has ended; the process's first thread stays like that.
  if (strstr(status, "\nState:\tZ")) return NULL;
  // In a call it may also wait for its memory, or on its way out of the call, or be held by a debugger: then it goes on.
  return strstr(status, "\nState:\tS") ? what : "runs";
}

// MARK: All threads

static bool note_activity(struct census_activity *activity, pid_t thread, const char *what) {
  char path[64];
  activity->thread = thread;
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", thread);
  if (read_file(path, activity->name, sizeof activity->name)) activity->name[strcspn(activity->name, "\n")] = 0;
  snprintf(activity->what, sizeof activity->what, "%s", what);
  return false;
}

static bool has_no_handler(struct census_activity *activity) {
  int signal = signal_with_handler();
  if (signal == 0) return true;
  char what[sizeof activity->what];
  snprintf(what, sizeof what, "signal %d has a handler", signal);
  return note_activity(activity, 0, what);
}

// All threads but the calling one.
static bool list(struct seen *seen, size_t *count, struct census_activity *activity) {
  DIR *tasks = opendir("/proc/self/task");
  *count = 0;
  if (!tasks) return note_activity(activity, 0, "the threads can't be looked at");
  bool is_complete = true;
  pid_t own = gettid();
  for (struct dirent *entry; is_complete && (entry = readdir(tasks));) {
    pid_t thread = atoi(entry->d_name);
    if (thread == 0 || thread == own) continue;
    if (*count == most_threads) is_complete = note_activity(activity, thread, "is one of too many");
    else seen[(*count)++].thread = thread;
  }
  closedir(tasks);
  return is_complete;
}

// Whether none of those that are listed can go on by itself.
static bool look_at_all(struct census *census, struct seen *seen, size_t count, bool again,
                        struct census_activity *activity) {
  census->eventfds = unknown;
  for (size_t i = 0; i < count; i++) {
    const char *what = look(census, &seen[i], again);
    if (what) return note_activity(activity, seen[i].thread, what);
  }
  return true;
}

static bool are_same(const struct seen *first, size_t count, const struct seen *second, size_t same,
                     struct census_activity *activity) {
  bool is_same = count == same;
  for (size_t i = 0; is_same && i < count; i++) is_same = first[i].thread == second[i].thread;
  return is_same || note_activity(activity, 0, "a thread came or went");
}

static bool have_not_run(const struct seen *first, const struct seen *second, size_t count,
                         struct census_activity *activity) {
  for (size_t i = 0; i < count; i++) {
    if (first[i].switches != second[i].switches) return note_activity(activity, second[i].thread, "runs");
  }
  return true;
}

bool coroutine_census_is_quiet(const void *idle_mark, bool (*is_still)(void), struct census_activity *activity) {
  memset(activity, 0, sizeof *activity);
  struct census census = {.idle_mark = idle_mark, .eventfds = unknown};
  struct seen *first = calloc(2 * most_threads, sizeof *first), *second = first + most_threads;
  if (!first) return note_activity(activity, 0, "there is no memory to look at the threads");
  size_t count, same;
  // A thread that waited at both looks, and has not run in between, waited at any moment between them. The first list
  // has all threads that live when the second one is made: so at that moment all wait. What a thread may have prepared
  // before is looked for after that moment; what is looked for in a look, again in the second one.
  bool is_quiet = list(first, &count, activity) && look_at_all(&census, first, count, false, activity) &&
                  list(second, &same, activity) && are_same(first, count, second, same, activity) &&
                  (is_still() || note_activity(activity, 0, "a timer is armed")) && has_no_handler(activity) &&
                  look_at_all(&census, second, count, true, activity) && have_not_run(first, second, count, activity);
  free(first);
  return is_quiet;
}
