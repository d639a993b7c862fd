// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "signals.h"

#include "CCoroutineSystem.h"
#include "current.h"
#include "inspection.h"
#include "running.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The size that the handlers before this one need, too: Swift's own starts a debugger of its own, and waits for it.
enum { handler_stack_size = 64 << 10, report_seconds = 20 };

static bool (*is_overflow)(const struct overflow *);
static void (*report)(const struct overflow *);
static struct sigaction previous_segv, previous_bus;

// One report in a process: after it, it ends. `overflow` is the faulting thread's until it has written to `asks`, then
// the reporter's until it has written to `answers`.
static struct overflow overflow;
enum { nothing, asked, reported };
static _Atomic uint32_t progress;
static _Atomic pid_t reporter;
static int asks = -1, answers = -1;
static pid_t reporter_of;  // the process that has the reporter: a child made by fork has none

// MARK: The handler

static void say(const char *text) { (void)!write(STDERR_FILENO, text, strlen(text)); }

// Asks the reporter, and waits for it, but not for ever: it allocates, and the faulting thread may hold the allocator's
// lock.
static void ask(void) {
  uint64_t one = 1;
  struct pollfd answer = {.fd = answers, .events = POLLIN};
  if (reporter_of == getpid() && write(asks, &one, sizeof one) == sizeof one) {
    int ready;
    do ready = poll(&answer, 1, report_seconds * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready == 1) return;
  }
  say("stack overflow in a coroutine; its name and its backtrace could not be found out\n");
}

// As the system call takes it, without the C library: so a handler may call it.
static long futex(int operation, uint32_t value, const struct timespec *deadline) {
  return syscall(SYS_futex, &progress, operation | FUTEX_PRIVATE_FLAG, value, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void set_reported(void) {
  atomic_store(&progress, reported);  // litmus: futex
  futex(FUTEX_WAKE, INT_MAX, NULL);
}

// Any fault ends the process, and one mistake may hit several threads at once: the second one leaves the first one the
// time for its report. The reporter's own fault can't wait for itself.
static void wait_until_reported(void) {
  if (atomic_load(&progress) != asked || gettid() == atomic_load(&reporter) || reporter_of != getpid()) return;
  struct timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += report_seconds + 1;
  while (atomic_load(&progress) == asked && (futex(FUTEX_WAIT_BITSET, asked, &deadline) == 0 || errno != ETIMEDOUT)) {}
}

// As the kernel would have, had it called that handler. Swift's own has a thread read the process's memory by trial: where
// its faults were blocked, the first one would end the process, and leave the program behind that writes the crash report.
static void block_as(const struct sigaction *previous, int signal) {
  pthread_sigmask(SIG_BLOCK, &previous->sa_mask, NULL);
  if (!(previous->sa_flags & SA_NODEFER) || sigismember(&previous->sa_mask, signal) == 1) return;
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, signal);
  pthread_sigmask(SIG_UNBLOCK, &own, NULL);
}

static void pass_on(int signal, siginfo_t *info, void *context) {
  const struct sigaction *previous = signal == SIGBUS ? &previous_bus : &previous_segv;
  block_as(previous, signal);
  if (previous->sa_flags & SA_SIGINFO) return previous->sa_sigaction(signal, info, context);
  if (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN) return previous->sa_handler(signal);
  // The fault happens again when this returns, and ends the process as if this handler had never been installed. (A
  // signal that was sent by `kill` does not.)
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, NULL);
  if (info->si_code <= 0) raise(signal);
}

static void handle(int signal, siginfo_t *info, void *context) {
  int saved = errno;
  uintptr_t registers[4];
  coroutine_signals_registers(context, registers);
  const struct overflow found = {(uintptr_t)info->si_addr, registers[0], registers[1],
                                 registers[2],             registers[3], coroutine_current()};
  uint32_t before = nothing;
  // One that was sent by `kill` is no fault.
  if (info->si_code > 0 && is_overflow(&found) && atomic_compare_exchange_strong(&progress, &before, asked)) {
    overflow = found;
    ask();
    set_reported();
  } else if (info->si_code > 0) {
    wait_until_reported();
  }
  errno = saved;
  pass_on(signal, info, context);
}

// MARK: The reporter

bool coroutine_overflow_waits_at(int descriptor) { return descriptor >= 0 && descriptor == asks; }

static void *answer(void *unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "coroutine-crash");
  atomic_store(&reporter, gettid());
  uint64_t count;
  while (read(asks, &count, sizeof count) != sizeof count) {
    if (errno != EINTR) return NULL;
  }
  report(&overflow);
  count = 1;
  (void)!write(answers, &count, sizeof count);
  return NULL;
}

static bool start_reporter(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  if ((asks = eventfd(0, EFD_CLOEXEC)) < 0 || (answers = eventfd(0, EFD_CLOEXEC)) < 0) return false;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // The program's signals are not for it; but with this one Swift's crash report halts each thread, and complains of
  // those that it can't halt.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int code = pthread_create(&thread, &attributes, answer, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  reporter_of = getpid();
  errno = code;
  return code == 0;
}

bool coroutine_overflow_install(bool (*check)(const struct overflow *), void (*write_report)(const struct overflow *)) {
  is_overflow = check;
  report = write_report;
  coroutine_system_keep_loaded((const void *)handle);
  if (!start_reporter()) return false;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  // Known before they are needed.
  if (sigaction(SIGSEGV, NULL, &previous_segv) != 0 || sigaction(SIGBUS, NULL, &previous_bus) != 0) return false;
  return sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0;
}

// MARK: Stacks for handlers

static __thread bool is_prepared;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

// A thread ends.
static void take_back(void *memory) {
  stack_t off = {.ss_flags = SS_DISABLE};
  stack_t current;
  if (sigaltstack(NULL, &current) == 0 && current.ss_sp == memory) sigaltstack(&off, NULL);
  munmap(memory, handler_stack_size);
}

static void make_key(void) { coroutine_system_create_key(&key, take_back); }

// Never inlined: its caller may go on on another thread, and the variable is each thread's own.
__attribute__((noinline)) void coroutine_overflow_prepare_thread(void) {
  if (is_prepared) return;
  is_prepared = true;
  coroutine_running_enter_thread();
  stack_t current;
  if (sigaltstack(NULL, &current) != 0) return;
  if (!(current.ss_flags & SS_DISABLE) && current.ss_size >= handler_stack_size / 4) return;
  pthread_once(&key_once, make_key);
  void *memory = mmap(NULL, handler_stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack = {.ss_sp = memory, .ss_size = handler_stack_size};
  // A sanitizer's own, perhaps, is in use at this moment: it stays.
  if (sigaltstack(&stack, NULL) != 0)
    munmap(memory, handler_stack_size);
  else
    pthread_setspecific(key, memory);
}

// MARK: At load

extern void coroutine_debug_prepare_thread(void);  // in CoroutineDebug

// A program gets this by linking CoroutineDebug alone. (In this file, and not in one of its own, which a linker would
// leave out of a static library.)
__attribute__((constructor)) static void at_load(void) {
  coroutine_record_times(true);
  coroutine_set_thread_preparation(coroutine_debug_prepare_thread);
}
