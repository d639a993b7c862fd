// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

// 0, or what `coroutine_io_signal_take` says.
static atomic_int come[NSIG];
// Between `catch` and `release`. The kernel's lock of the handlers stands between a change and a handler that begins after it.
static atomic_bool caught[NSIG];
static struct sigaction before[NSIG];
// What was there before the first `catch` of all: nothing that calls `note`.
static struct sigaction first[NSIG];
static bool is_first_known[NSIG];
// In a child: what was there before `catch` has had its turn.
static atomic_bool passed[NSIG];
// Whether one that was not caught has been raised again since `release`, or need not be.
static atomic_bool raised[NSIG];
static atomic_int wake_end = -1;
static atomic_int owner;

// Runs in any thread, between any two instructions: it may use only atomics and functions that are safe there. A full pipe
// is no loss, since the record is there and its reader has a reason to look already.
static void note(int number) {
  int error = errno;
  if (getpid() == atomic_load_explicit(&owner, memory_order_relaxed)) {
    int kind = atomic_load_explicit(&caught[number], memory_order_relaxed) ? 1 : 2;
    atomic_store_explicit(&come[number], kind, memory_order_release);  // litmus: look-locked
    ssize_t written = write(atomic_load_explicit(&wake_end, memory_order_relaxed), "", 1);
    (void)written;
  } else {
    // A child of fork has the same pipe, whose reader is its parent. There the signal has its former effect, after this. That may
    // be a handler which calls this one: once.
    sigaction(number, atomic_exchange(&passed[number], true) ? &first[number] : &before[number], NULL);
    raise(number);
  }
  errno = error;
}

void coroutine_io_signals_begin(int wake) {
  atomic_store(&wake_end, wake);
  atomic_store(&owner, getpid());
}

int coroutine_io_signal_catch(int number) {
  struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  // Put back by other code: what was there before is still known.
  struct sigaction present;
  bool is_back = sigaction(number, NULL, &present) == 0 && present.sa_handler == note;
  atomic_store(&caught[number], true);
  if (sigaction(number, &action, is_back ? NULL : &before[number]) != 0) {
    atomic_store(&caught[number], false);
    return -1;
  }
  if (!is_first_known[number]) first[number] = before[number];
  is_first_known[number] = true;
  return 0;
}

bool coroutine_io_signal_release(int number) {
  // What other code has put in its place since is that code's.
  struct sigaction present;
  bool is_ours = sigaction(number, NULL, &present) != 0 || present.sa_handler == note;
  bool was_caught = atomic_load(&caught[number]);
  if (is_ours) sigaction(number, &before[number], NULL);
  atomic_store(&caught[number], false);
  // A call that began before the release may be noted after it. Where other code's handler had this one's place, none is: it has
  // called this one, and has dealt with the signal.
  if (was_caught) atomic_store(&raised[number], !is_ours);
  return was_caught || is_ours || !atomic_exchange(&raised[number], true);
}

int coroutine_io_signal_take(int number) {  // litmus: look-locked
  return atomic_exchange_explicit(&come[number], 0, memory_order_acq_rel);
}

void coroutine_io_signal_raise(int number) { kill(getpid(), number); }

int coroutine_io_signal_last(void) { return NSIG - 1; }
