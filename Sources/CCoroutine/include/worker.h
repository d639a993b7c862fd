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

// Makes what the functions below need. By the thread that is about to begin one that will run coroutines: it may be inside of a
// `dlopen`, whose lock the new one could not get. All calls but the first do nothing.
void coroutine_make_thread_keys(void);

// By a pool's thread, when it begins and before it returns. If it ends in between, by pthread_exit, `lost` is called on it.
void coroutine_pool_thread_begins(void (*lost)(void));
void coroutine_pool_thread_returns(void);

// By a thread that is no pool's, such as a queue's or the program's own, each time before it runs coroutines: all calls but the
// first do nothing. Should it ever end inside of a coroutine, `lost` is called on it.
void coroutine_thread_runs_coroutines(void (*lost)(void));
