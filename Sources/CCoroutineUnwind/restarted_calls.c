// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "restarted_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

// MARK: Which

// A call on a socket that has a time limit is never restarted. What is no socket has none.
static bool has_time_limit(int descriptor) {
  static const int limits[] = {SO_RCVTIMEO, SO_SNDTIMEO};
  for (int i = 0; i < 2; i++) {
    struct timeval time = {0, 0};
    socklen_t size = sizeof time;
    if (getsockopt(descriptor, SOL_SOCKET, limits[i], &time, &size) == 0 && (time.tv_sec != 0 || time.tv_usec != 0))
      return true;
  }
  return false;
}

static enum restart of_receive(int descriptor, int flags) {
  return (flags & MSG_WAITALL) || has_time_limit(descriptor) ? RESTART_NONE : RESTART_BY_KERNEL;
}

static enum restart of_futex(int operation, bool has_timeout) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT: return has_timeout ? RESTART_NONE : RESTART_BY_KERNEL;
    // Until a moment, not for a time.
    case FUTEX_WAIT_BITSET: return has_timeout ? RESTART_BY_HANDLER : RESTART_BY_KERNEL;
    case FUTEX_LOCK_PI: return RESTART_BY_KERNEL;
    default: return RESTART_NONE;
  }
}

// What waits for a time begins anew with the whole of it: only what waits without a limit, until a moment, or says how much
// is left, is made again.
enum restart coroutine_call_restarted(const struct coroutine_blocked_call *call) {
  const uint64_t *arguments = call->arguments;
  switch (call->number) {
    // (Not those that write: a part may be written, and then they return with that.)
    case SYS_read: case SYS_readv: case SYS_accept: case SYS_accept4: case SYS_connect:
      return has_time_limit((int)arguments[0]) ? RESTART_NONE : RESTART_BY_KERNEL;
    case SYS_recvfrom: return of_receive((int)arguments[0], (int)arguments[3]);
    case SYS_recvmsg: return of_receive((int)arguments[0], (int)arguments[2]);
    case SYS_openat: case SYS_flock: case SYS_fcntl: case SYS_wait4: case SYS_waitid:
#ifdef SYS_open
    case SYS_open:
#endif
      return RESTART_BY_KERNEL;
    case SYS_futex: return of_futex((int)arguments[1], arguments[3] != 0);
    case SYS_nanosleep: return arguments[1] ? RESTART_BY_HANDLER : RESTART_NONE;
    case SYS_clock_nanosleep:
      return arguments[1] == TIMER_ABSTIME || arguments[3] ? RESTART_BY_HANDLER : RESTART_NONE;
    case SYS_ppoll: return arguments[2] ? RESTART_NONE : RESTART_BY_HANDLER;
    case SYS_pselect6: return arguments[4] ? RESTART_NONE : RESTART_BY_HANDLER;
    case SYS_epoll_pwait: return (int)arguments[3] >= 0 ? RESTART_NONE : RESTART_BY_HANDLER;
#ifdef SYS_poll
    case SYS_poll: return (int)arguments[2] >= 0 ? RESTART_NONE : RESTART_BY_HANDLER;
    case SYS_select: return arguments[4] ? RESTART_NONE : RESTART_BY_HANDLER;
    case SYS_epoll_wait: return (int)arguments[3] >= 0 ? RESTART_NONE : RESTART_BY_HANDLER;
#endif
    default: return RESTART_NONE;
  }
}

// MARK: How

// Where the time lies that a sleep is given, and where the kernel has written what is left of it.
static void sleep_arguments(const struct coroutine_blocked_call *call, int *asked, int *left) {
  *asked = *left = -1;
  if (call->number == SYS_nanosleep) *asked = 0, *left = 1;
  if (call->number == SYS_clock_nanosleep && call->arguments[1] != TIMER_ABSTIME) *asked = 2, *left = 3;
}

#if defined(__x86_64__)

static const int argument_registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10};
static const unsigned char system_call[] = {0x0f, 0x05};

void coroutine_call_restart(const struct coroutine_blocked_call *call, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const char *after = (const char *)registers[REG_RIP];
  if (registers[REG_RAX] != -EINTR || memcmp(after - sizeof system_call, system_call, sizeof system_call) != 0) return;
  // It may have made another call since.
  for (int i = 0; i < 4; i++)
    if ((uint64_t)registers[argument_registers[i]] != call->arguments[i]) return;
  int asked, left;
  sleep_arguments(call, &asked, &left);
  if (asked >= 0) registers[argument_registers[asked]] = registers[argument_registers[left]];
  registers[REG_RAX] = call->number;
  registers[REG_RIP] -= sizeof system_call;
}

#elif defined(__aarch64__)

static const unsigned char system_call[] = {0x01, 0x00, 0x00, 0xd4};

void coroutine_call_restart(const struct coroutine_blocked_call *call, void *context) {
  mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
  const char *after = (const char *)machine->pc;
  if ((int64_t)machine->regs[0] != -EINTR || memcmp(after - sizeof system_call, system_call, sizeof system_call) != 0)
    return;
  // It may have made another call since. (The first argument's register has the result.)
  if ((long)machine->regs[8] != call->number) return;
  for (int i = 1; i < 4; i++)
    if (machine->regs[i] != call->arguments[i]) return;
  machine->regs[0] = call->arguments[0];
  int asked, left;
  sleep_arguments(call, &asked, &left);
  if (asked >= 0) machine->regs[asked] = call->arguments[left];
  machine->pc -= sizeof system_call;
}

#endif
