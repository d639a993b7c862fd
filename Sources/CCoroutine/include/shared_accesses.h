// SPDX-License-Identifier: Apache-2.0

// The accesses that suspended coroutines of one domain have open.
//
// A coroutine takes its accesses with it when it suspends. Coroutines that share no variables lose nothing by that, and the
// compiler's rules keep them apart. Those of one domain may share variables: of the main actor, of an event loop, of one
// `runUntilComplete`. One at a time runs, and it must not touch what a suspended one is in the middle of changing. So such
// accesses go into a chain, which belongs to the domain. While its coroutines have their turns, the chain is a part of the
// thread's list, behind the running one's own accesses: Swift's checks then see it. When a coroutine goes on, its accesses leave
// the chain.
//
//     thread's list:  the coroutine's own -> first -> [begin, those of one suspended, end] … -> last -> those of the code around
//
// Only code that runs in the domain calls these functions for its chain, one thread at a time; others only read the count of
// all. The chains are empty but for programs that suspend inside of accesses, so nothing of this is on the usual way.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "swift_thread_state.h"

// The chain of one domain.
struct coroutine_shared_accesses;

// Each access that is checked walks along the chain. So only the accesses of `limit` coroutines at a time are in it; those of
// others go unseen. NULL: no memory.
extern struct coroutine_shared_accesses *coroutine_shared_accesses_create(uint32_t limit);

// No coroutine runs in the domain any more. Where one is suspended in it for ever the chain stays.
extern void coroutine_shared_accesses_destroy(struct coroutine_shared_accesses *chain);

// Written in Swift: that of the domain in which the running coroutine runs, or NULL. NULL itself in programs of C alone.
extern struct coroutine_shared_accesses *coroutine_current_shared_accesses(void) __attribute__((weak));

// Whether the thread runs code of an actor, the main actor among them, below the coroutines that it runs.
extern bool coroutine_runs_on_executor(void);

// How many coroutines' accesses are in all chains. To be read on any thread: 0 unless there may be something to do.
extern uint32_t coroutine_shared_accesses_count;

static inline __attribute__((always_inline)) bool coroutine_shared_accesses_exist(void) {
  return __atomic_load_n(&coroutine_shared_accesses_count, __ATOMIC_RELAXED) != 0;
}

// Whether the chain is a part of the thread's list.
extern bool coroutine_shared_accesses_are_attached(const struct coroutine_shared_accesses *chain);

// Puts the chain in front of the thread's list, if it is not empty and not a part of it. For what then resumes a coroutine.
extern void coroutine_shared_accesses_attach(struct coroutine_shared_accesses *chain);

// Puts the chain behind the own accesses of the running coroutine, whose words are `words`, likewise. It stays attached, in front
// of the list, when that coroutine leaves.
extern void coroutine_shared_accesses_attach_behind(struct coroutine_shared_accesses *chain, struct swift_thread_state *words);

// Takes the chain out of the thread's list, if it is a part of it. Where it was put in front, after those turns.
extern void coroutine_shared_accesses_detach(struct coroutine_shared_accesses *chain);
