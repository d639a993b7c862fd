// SPDX-License-Identifier: Apache-2.0

// The accesses that suspended coroutines of the main actor have open.
//
// A coroutine takes its accesses with it when it suspends. Coroutines that share no variables lose nothing by that, and the
// compiler's rules keep them apart. Those of the main actor do share variables, and the one that runs must not touch what a
// suspended one is in the middle of changing. So such accesses go into a chain, which belongs to the main actor. While its
// coroutines have their turns, the chain is a part of the thread's list, behind the running one's own accesses: Swift's checks
// then see it. When a coroutine goes on, its accesses leave the chain.
//
//     thread's list:  the coroutine's own -> first -> [mark, accesses of one suspended] … -> last -> those of the code around
//
// Only code that runs for the main actor calls these functions, one thread at a time; others only read the
// count. The chain is empty but for programs that suspend inside of accesses, so nothing of this is on the usual way.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "swift_thread_state.h"

// How many coroutines' accesses are in the chain. To be read on any thread: 0 unless there is something to do on the main actor.
extern uint32_t coroutine_shared_accesses_count;

static inline __attribute__((always_inline)) bool coroutine_shared_accesses_exist(void) {
  return __atomic_load_n(&coroutine_shared_accesses_count, __ATOMIC_RELAXED) != 0;
}

// Whether the chain is a part of the thread's list.
extern bool coroutine_shared_accesses_are_attached(void);

// Puts the chain in front of the thread's list, if it is not a part of it. For what then resumes a coroutine.
extern void coroutine_shared_accesses_attach(void);

// Puts the chain behind the own accesses of the running coroutine, whose words are `words`, if it is not a part of the list. It
// stays attached, in front of the list, when that coroutine leaves.
extern void coroutine_shared_accesses_attach_behind(struct swift_thread_state *words);

// Takes the chain out of the thread's list, if it is a part of it. Where it was put in front, after those turns.
extern void coroutine_shared_accesses_detach(void);
