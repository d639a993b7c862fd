// SPDX-License-Identifier: Apache-2.0

// Where threads stand that run coroutines: each is asked by a signal, and stands still in its handler until its stacks
// were copied. Unless a dump asks for it, no thread is interrupted that would notice.
//
// The signal is SIGURG: only readers of urgent data of sockets need it, and a program has to put up with one that comes
// unasked in any case. A SIGURG of another sender still reaches the program's handler.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Enters the calling thread in the list of those that run coroutines, until it ends, and unblocks the signal there. Once for
// each thread, before it runs one.
void coroutine_running_enter_thread(void);

// A thread that runs a coroutine.
struct running_thread {
  pid_t id;
  uintptr_t top;  // the upper end of its own stack; 0: unknown
};

// Those that run a coroutine at this moment, but the calling one. Writes `capacity` at most and returns how many there are.
size_t coroutine_running_threads(struct running_thread *threads, size_t capacity);

// Makes a thread stand still where it is, in the handler of a signal. False if it has not done so after `milliseconds`,
// or has ended: then it will not, and `coroutine_running_release` must not be called. `registers` are its pc, sp, fp
// and base register. If it is to be `unnoticed`, also false, at once, where the thread is in no system call, or in one that
// would return early.
//
// Until `coroutine_running_release` the caller must take no lock and allocate nothing: that thread may be in the middle
// of it. One thread at a time calls this.
bool coroutine_running_hold(pid_t thread, int milliseconds, bool unnoticed, uintptr_t registers[4]);
void coroutine_running_release(void);

// Whether that is the handler of these questions, and no other one is behind it.
struct sigaction;
bool coroutine_running_handles(const struct sigaction *action);
