// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "running.h"

#include "CCoroutineSystem.h"
#include "blocked_calls.h"
#include "current.h"
#include "restarted_calls.h"
#include "signals.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// MARK: The threads

struct entry {
  struct entry *previous, *next;
  pid_t id;
  uintptr_t top;  // of its own stack
  void *const *current;  // which coroutine it runs: its thread-local variable
};

// Guards the list. Never held by a thread that runs a coroutine.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *first;
static pthread_key_t key;
static bool has_key;  // the process may have none left
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static void forget_question(void);

// A thread ends. Its variables are there still.
static void leave(void *value) {
  struct entry *entry = value;
  pthread_mutex_lock(&lock);
  if (entry->previous) entry->previous->next = entry->next; else first = entry->next;
  if (entry->next) entry->next->previous = entry->previous;
  pthread_mutex_unlock(&lock);
  free(entry);
}

// Asked while it is no other's affair: the C library allocates for the answer.
static uintptr_t own_top(void) {
  pthread_attr_t attributes;
  void *bottom;
  size_t size;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  uintptr_t top = pthread_attr_getstack(&attributes, &bottom, &size) == 0 ? (uintptr_t)bottom + size : 0;
  pthread_attr_destroy(&attributes);
  return top;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void after_fork(void) { pthread_mutex_unlock(&lock); }

// Of the threads there is only the one that has forked. What the entries of the others point to is their threads' memory,
// which the C library may give back.
static void after_fork_in_child(void) {
  struct entry *own = has_key ? pthread_getspecific(key) : NULL;
  first = own;
  if (own) {
    own->previous = own->next = NULL;
    own->id = gettid();
  }
  forget_question();
  pthread_mutex_unlock(&lock);
}

static void make_key(void) {
  has_key = coroutine_system_create_key(&key, leave) == 0;
  pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void coroutine_running_enter_thread(void) {
  // Threads of Dispatch block all signals, and so do those that they make. As long as there is no handler for this one
  // it has no effect where it is not blocked.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGURG);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
  pthread_once(&key_once, make_key);
  struct entry *entry = has_key ? calloc(1, sizeof *entry) : NULL;
  if (!entry || pthread_setspecific(key, entry) != 0) {
    free(entry);
    return;
  }
  entry->id = gettid();
  entry->top = own_top();
  entry->current = &coroutine_current_slot;
  pthread_mutex_lock(&lock);
  entry->next = first;
  if (first) first->previous = entry;
  first = entry;
  pthread_mutex_unlock(&lock);
}

// Its thread writes it, and no other.
__attribute__((disable_sanitizer_instrumentation, noinline)) static bool runs_coroutine(const struct entry *entry) {
  return __atomic_load_n(entry->current, __ATOMIC_RELAXED) != NULL;
}

size_t coroutine_running_threads(struct running_thread *threads, size_t capacity) {
  size_t count = 0;
  pid_t own = gettid();
  pthread_mutex_lock(&lock);
  for (const struct entry *entry = first; entry; entry = entry->next) {
    if (entry->id == own || !runs_coroutine(entry)) continue;
    if (count < capacity) threads[count] = (struct running_thread){entry->id, entry->top};
    count++;
  }
  pthread_mutex_unlock(&lock);
  return count;
}

// MARK: The question

// The only writer of `question`: in `idle` and `asked` the thread that asks, in `answering` the thread that was asked,
// which then stands still in `held`. The phase is in the two low bits of `state`. Above them is the question's number:
// a thread that was let go may learn of it late.
enum { idle, asked, answering, held, phases };

static struct {
  _Atomic uint32_t state;
  _Atomic pid_t thread;
  uintptr_t registers[4];
  // The system call that the handler makes again.
  bool is_restarted;
  struct coroutine_blocked_call call;
} question;

// In a child by fork, where the thread that asks and the one that was asked may be missing.
static void forget_question(void) { atomic_store(&question.state, idle); }

static struct sigaction previous;

static void wake(void) { syscall(SYS_futex, &question.state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

static void wait_while(uint32_t state, const struct timespec *timeout) {
  syscall(SYS_futex, &question.state, FUTEX_WAIT_PRIVATE, state, timeout, NULL, 0);
}

// A system call that a signal interrupts, and that is to be restarted, stands before its instruction in the handler;
// seen from outside it stands behind it. All dumps should show the same.
static uintptr_t behind_system_call(uintptr_t pc) {
#if defined(__x86_64__)
  static const unsigned char system_call[] = {0x0f, 0x05};
#elif defined(__aarch64__)
  static const unsigned char system_call[] = {0x01, 0x00, 0x00, 0xd4};
#endif
  return memcmp((const void *)pc, system_call, sizeof system_call) == 0 ? pc + sizeof system_call : pc;
}

static void handle(int signal, siginfo_t *info, void *context) {
  if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &question) {
    if (previous.sa_flags & SA_SIGINFO)
      previous.sa_sigaction(signal, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
      previous.sa_handler(signal);
    return;
  }
  int saved = errno;
  uint32_t state = atomic_load(&question.state), number = state - state % phases;
  // Too late: the asker no longer waits for the answer. Or another question has been asked, of this thread too: it is
  // answered, and the signal of that question then comes too late.
  if (state % phases == asked && atomic_load(&question.thread) == gettid() &&
      atomic_compare_exchange_strong(&question.state, &state, number + answering)) {  // litmus: question
    coroutine_signals_registers(context, question.registers);
    question.registers[0] = behind_system_call(question.registers[0]);
    // Once it is let go, the next question may be asked.
    bool is_restarted = question.is_restarted;
    struct coroutine_blocked_call call = question.call;
    atomic_store(&question.state, number + held);
    wake();
    while (atomic_load(&question.state) == number + held) wait_while(number + held, NULL);
    if (is_restarted) coroutine_call_restart(&call, context);
  }
  errno = saved;
}

bool coroutine_running_handles(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == handle &&
         (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN);
}

static bool install(void) {
  static bool is_installed;
  if (is_installed) return true;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  is_installed = sigaction(SIGURG, NULL, &previous) == 0 && sigaction(SIGURG, &action, NULL) == 0;
  return is_installed;
}

// The program may have taken the signal for itself since.
static bool is_installed_still(void) {
  struct sigaction action;
  return sigaction(SIGURG, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == handle;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

bool coroutine_running_hold(pid_t thread, int milliseconds, bool unnoticed, uintptr_t registers[4]) {
  struct coroutine_blocked_call call;
  enum restart restart = RESTART_BY_KERNEL;
  if (unnoticed) {
    bool is_in_call = coroutine_blocked_call_of(thread, &call) == COROUTINE_THREAD_IN_CALL;
    restart = is_in_call ? coroutine_call_restarted(&call) : RESTART_NONE;
  }
  if (restart == RESTART_NONE || !install() || (unnoticed && !is_installed_still())) return false;
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = &question;
  uint32_t number = atomic_load(&question.state) + phases, state;
  question.is_restarted = restart == RESTART_BY_HANDLER;
  if (question.is_restarted) question.call = call;
  atomic_store(&question.thread, thread);
  atomic_store(&question.state, number + asked);  // litmus: question
  bool is_asked = syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, SIGURG, &info) == 0;
  int64_t end = now() + (int64_t)milliseconds * 1000000, left;
  while ((state = atomic_load(&question.state)) != number + held) {
    left = is_asked ? end - now() : 0;
    // Once it has begun to answer it does so in a moment, however late.
    if (state == number + asked && left <= 0 && atomic_compare_exchange_strong(&question.state, &state, number))
      return false;
    if (left > 0) wait_while(state, &(struct timespec){left / 1000000000, left % 1000000000});
  }
  memcpy(registers, question.registers, sizeof question.registers);
  return true;
}

void coroutine_running_release(void) {
  atomic_fetch_sub(&question.state, held);
  wake();
}
