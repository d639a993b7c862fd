// SPDX-License-Identifier: Apache-2.0

// Whether anything can still happen in the process: a look at each of its threads, from outside, by /proc.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

// A thread that may go on by itself: it runs, or waits for a time, for another process, for the network.
struct census_activity {
  pid_t thread;   // 0: it is not one thread that does it
  char name[16];  // what it is called
  char what[64];  // what it does, in words: "runs", "waits in system call 0"
};

// Whether no thread but the calling one can ever go on by itself: each waits, with no deadline, for what only another
// thread of the process could do, and no signal has a handler that could wake one. Then nothing will happen any more,
// unless the calling thread causes it. If not, `activity` names one that can go on.
//
// Threads that wait as idle ones of the runtime count as such: those that passed `idle_mark` to the kernel. So do the
// idle ones of Dispatch. What threads don't show is looked at while all of them wait: the signals' handlers, and by
// `is_still` timers. Takes some 20 us for each thread, less if one of the first is active.
bool coroutine_census_is_quiet(const void *idle_mark, bool (*is_still)(void), struct census_activity *activity);
