// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

// What goes through the pipe is an index, or `to_unblock` and a signal.
enum { most = 8, signal_limit = 65, to_unblock = 128 };

// Written before the handler is installed that reads them.
static int descriptors[2] = {-1, -1};
static pid_t owner;
static int count;
static uint8_t index_of[signal_limit];
static _Atomic pid_t waiting_thread;

pid_t coroutine_signals_waiting_thread(void) { return atomic_load(&waiting_thread); }

static void handle(int signal) {
  // A child by fork has the same pipe, but no reader of its own: the parent would make the dump.
  if (getpid() != owner) return;
  int saved = errno;
  // A byte a signal: a pipe keeps their order, and which they were.
  uint8_t index = index_of[signal];
  (void)!write(descriptors[1], &index, 1);
  errno = saved;
}

bool coroutine_signals_handles(const struct sigaction *action) { return action->sa_handler == handle; }

int coroutine_signals_notify(int signal) {
  if (signal <= 0 || signal >= signal_limit) {
    errno = EINVAL;
    return -1;
  }
  if (count == most) {
    errno = ENOSPC;
    return -1;
  }
  if (descriptors[0] < 0 && pipe2(descriptors, O_CLOEXEC) != 0) return -1;
  // A handler must not wait for room: a byte that does not fit is one dump among thousands.
  fcntl(descriptors[1], F_SETFL, O_NONBLOCK);
  owner = getpid();
  index_of[signal] = (uint8_t)count;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  if (sigaction(signal, &action, NULL) != 0) return -1;
  uint8_t request = (uint8_t)(to_unblock + signal);
  (void)!write(descriptors[1], &request, 1);
  return count++;
}

// All threads of a process may block a signal: a process inherits the mask of its parent. Then this thread takes it.
static void unblock(int signal) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

int coroutine_signals_wait(void) {
  uint8_t byte;
  ssize_t got;
  atomic_store(&waiting_thread, gettid());
  while (true) {
    got = read(descriptors[0], &byte, 1);
    if (got == 1 && byte > to_unblock) unblock(byte - to_unblock);
    else if (got >= 0 || errno != EINTR) break;
  }
  atomic_store(&waiting_thread, 0);
  return got == 1 ? byte : -1;
}

void coroutine_signals_registers(const void *context, uintptr_t registers[4]) {
  const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
  registers[0] = (uintptr_t)machine->gregs[REG_RIP];
  registers[1] = (uintptr_t)machine->gregs[REG_RSP];
  registers[2] = (uintptr_t)machine->gregs[REG_RBP];
  registers[3] = (uintptr_t)machine->gregs[REG_RBX];
#elif defined(__aarch64__)
  registers[0] = machine->pc;
  registers[1] = machine->sp;
  registers[2] = machine->regs[29];
  registers[3] = machine->regs[19];
#else
#error "CoroutineDebug does not know where ucontext_t keeps this architecture's pc, sp, fp and base register: add them here."
#endif
}
