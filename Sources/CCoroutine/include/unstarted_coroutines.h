// SPDX-License-Identifier: Apache-2.0

// Where the calling thread puts coroutines that it creates, so that debuggers find them. What lies there is the affair of
// Swift's `UnstartedCoroutines`.
//
// The next slot is read and written from inside coroutines, which may have come from another thread.
#pragma once

#include "thread_slot.h"

// Never null: a thread without slots has one that is taken.
COROUTINE_THREAD_SLOT(coroutine_unstarted_next_slot);

// The owner of the slots; null on a thread that has none. Not for the usual case, which needs the next slot alone.
void *coroutine_unstarted(void);

// By a thread that gets slots, or, with null, leaves them. Before the next one is said.
void coroutine_set_unstarted(void *slots);

static inline __attribute__((always_inline)) void *coroutine_unstarted_next(void) {
  return coroutine_unstarted_next_slot_load();
}

static inline __attribute__((always_inline)) void coroutine_unstarted_set_next(void *slot) {
  coroutine_unstarted_next_slot_store(slot);
}
