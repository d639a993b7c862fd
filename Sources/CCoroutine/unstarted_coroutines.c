// SPDX-License-Identifier: Apache-2.0

#include "unstarted_coroutines.h"

#include <stddef.h>

// What a thread without slots has for a next one: taken by itself, for ever.
static void *taken = &taken;

COROUTINE_THREAD_SLOT_DEFINE(coroutine_unstarted_next_slot, &taken);

static __thread void *unstarted;

__attribute__((noinline)) void *coroutine_unstarted(void) {
  __asm__ volatile("" ::: "memory");  // not pure: a second call after a switch may answer for another thread
  return unstarted;
}

void coroutine_set_unstarted(void *slots) {
  unstarted = slots;
  if (slots == NULL) coroutine_unstarted_next_slot = &taken;
}
