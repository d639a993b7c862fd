// SPDX-License-Identifier: Apache-2.0

// The worker of a thread pool that the calling thread is: one thread-local pointer, null on every other thread.
//
// Read on each wake, from inside coroutines, which may have come from another thread.
#pragma once

#include "thread_slot.h"

COROUTINE_THREAD_SLOT(coroutine_worker_slot);

static inline __attribute__((always_inline)) void *coroutine_worker(void) { return coroutine_worker_slot_load(); }

// By a thread that begins or ceases to be a worker.
static inline void coroutine_set_worker(void *worker) { coroutine_worker_slot_store(worker); }

// Before a thread begins that will run coroutines, by the thread that begins it: that may be inside of a `dlopen`, whose lock the new
// one could not get. All calls but the first do nothing.
void coroutine_make_thread_keys(void);

// Between these two, both by a pool's thread, it does not end unseen: `lost` is called on it should it call pthread_exit.
void coroutine_pool_thread_begins(void (*lost)(void));
void coroutine_pool_thread_returns(void);

// A thread that is no pool's, such as a queue's or the program's own, calls this before it runs coroutines. It does so again and
// again: all calls but the first do nothing. `lost` is called on the thread should it ever end inside of a coroutine.
void coroutine_thread_runs_coroutines(void (*lost)(void));
