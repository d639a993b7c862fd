// SPDX-License-Identifier: Apache-2.0

#include "unstarted_coroutines.h"

#include <stddef.h>

// What a thread without places has for a next one: taken by itself, for ever.
static void *taken = &taken;

__thread void *coroutine_unstarted_next_slot __attribute__((tls_model("initial-exec"))) = &taken;

static __thread void *unstarted;

__attribute__((noinline)) void *coroutine_unstarted(void) {
  __asm__ volatile("" ::: "memory");  // not pure: a second call after a switch may answer for another thread
  return unstarted;
}

void coroutine_set_unstarted(void *places) {
  unstarted = places;
  if (places == NULL) coroutine_unstarted_next_slot = &taken;
}

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))

__attribute__((noinline)) void *coroutine_unstarted_next(void) {
  __asm__ volatile("" ::: "memory");  // as above
  return coroutine_unstarted_next_slot;
}

__attribute__((noinline)) void coroutine_unstarted_set_next(void *place) {
  __asm__ volatile("" ::: "memory");
  coroutine_unstarted_next_slot = place;
}

#endif
