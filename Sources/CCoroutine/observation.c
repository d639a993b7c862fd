// SPDX-License-Identifier: Apache-2.0

#include "observation.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

enum { slots = 64 };

static struct {
  _Alignas(64) uint32_t calls;
} calls_in_progress[slots];

static uint32_t next_slot;

// Of the thread that runs: an observer must not suspend, so a call ends on the thread that it began on.
static __thread uint32_t own_slot;  // counted from 1; 0: not chosen yet
static __thread bool is_inside;

// In a child by fork, where the calls of other threads never end.
static void forget_others(void) {
  for (int index = 0; index < slots; index++) __atomic_store_n(&calls_in_progress[index].calls, 0, __ATOMIC_RELAXED);
  if (is_inside) __atomic_store_n(&calls_in_progress[own_slot - 1].calls, 1, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void handle_forks(void) { (void)pthread_atfork(NULL, NULL, forget_others); }

void *coroutine_observation_enter(void) {
  if (is_inside) return NULL;
  is_inside = true;
  if (own_slot == 0) own_slot = __atomic_fetch_add(&next_slot, 1, __ATOMIC_RELAXED) % slots + 1;
  uint32_t *calls = &calls_in_progress[own_slot - 1].calls;
  // Before the list is read: either that is the new one, or the waiting thread sees this.
  __atomic_fetch_add(calls, 1, __ATOMIC_SEQ_CST);  // litmus: observer-drain
  return calls;
}

void coroutine_observation_leave(void *slot) {
  __atomic_fetch_sub((uint32_t *)slot, 1, __ATOMIC_RELEASE);  // litmus: slot-reuse
  is_inside = false;
}

bool coroutine_observation_is_inside(void) { return is_inside; }

void coroutine_observation_drain(void) {  // litmus: observer-drain, slot-reuse
  for (int index = 0; index < slots; index++)
    while (__atomic_load_n(&calls_in_progress[index].calls, __ATOMIC_SEQ_CST) != 0) sched_yield();
}
