#include "newcomers.h"

#include <stddef.h>

// What a thread without places has for a next one: taken by itself, for ever.
static void *taken = &taken;

__thread void *coroutine_newcomers_next_slot __attribute__((tls_model("initial-exec"))) = &taken;

static __thread void *newcomers;

__attribute__((noinline)) void *coroutine_newcomers(void) {
  __asm__ volatile("" ::: "memory");  // not pure: a second call after a switch may answer for another thread
  return newcomers;
}

void coroutine_set_newcomers(void *places) {
  newcomers = places;
  if (places == NULL) coroutine_newcomers_next_slot = &taken;
}

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))

__attribute__((noinline)) void *coroutine_newcomers_next(void) {
  __asm__ volatile("" ::: "memory");  // as above
  return coroutine_newcomers_next_slot;
}

__attribute__((noinline)) void coroutine_newcomers_set_next(void *place) {
  __asm__ volatile("" ::: "memory");
  coroutine_newcomers_next_slot = place;
}

#endif
