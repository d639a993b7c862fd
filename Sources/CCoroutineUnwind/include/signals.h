// SPDX-License-Identifier: Apache-2.0

// The code of signal handlers, which does as little as possible: a thread of its own does the work.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// MARK: A dump on a signal

// From here on `signal` writes its index, which is returned, to a pipe. -1 if there are 8 already, or the system refuses: errno
// says why.
int coroutine_signals_notify(int signal);

// Waits for the next signal, and returns its index. -1 after an unexpected error. From here on the calling thread takes
// those signals, whatever it and all others blocked before.
int coroutine_signals_wait(void);

// The thread that is inside `coroutine_signals_wait`; 0 without one. It only makes dumps.
pid_t coroutine_signals_waiting_thread(void);

// Whether that is the handler which `coroutine_signals_notify` installs.
struct sigaction;
bool coroutine_signals_handles(const struct sigaction *action);

// Reads a handler's `context` argument: the pc, sp, fp and base register of the interrupted code.
void coroutine_signals_registers(const void *context, uintptr_t registers[4]);

// MARK: Overflows of coroutines' stacks

// A fault at an address, and the registers there.
struct overflow {
  uintptr_t address;
  uintptr_t pc, sp, fp, base;
  void *coroutine;  // what `coroutine_current()` was
};

// Takes over SIGSEGV and SIGBUS, once; the previous handlers are called afterwards. `is_overflow` says, in the handler,
// whether the cause of a fault is that a coroutine's stack is too small: it takes no lock and allocates nothing.
// `report` writes the report, on a thread that is made here. False if the system refuses: errno says why.
bool coroutine_overflow_install(bool (*is_overflow)(const struct overflow *), void (*report)(const struct overflow *));

// Whether that descriptor is the one that the report's thread reads: that thread wakes no other one.
bool coroutine_overflow_waits_at(int descriptor);

// Gives the calling thread a stack for signal handlers, unless it has one that is large enough. Does nothing the second
// time.
void coroutine_overflow_prepare_thread(void);
