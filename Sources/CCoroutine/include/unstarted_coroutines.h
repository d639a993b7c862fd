// SPDX-License-Identifier: Apache-2.0

// Where the calling thread puts coroutines that it creates, so that debuggers find them. What lies there is the affair of
// Swift's `UnstartedCoroutines`.
//
// The next place is read and written from inside coroutines, which may have come from another thread: for the reasons
// in current.h the address is computed anew at each access, in assembly that the compiler cannot look into.
#pragma once

#include <stdint.h>

// Never null: a thread without places has one that is taken.
extern __thread void *coroutine_unstarted_next_slot __attribute__((tls_model("initial-exec")));

// The owner of the places; null on a thread that has none. Not for the usual case, which needs the next place alone.
void *coroutine_unstarted(void);

// By a thread that gets places, or, with null, leaves them. Before the next one is said.
void coroutine_set_unstarted(void *places);

#if defined(__x86_64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_unstarted_next(void) {
  void *place;
  __asm__ volatile(
      "movq coroutine_unstarted_next_slot@GOTTPOFF(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(place)
      :
      : "memory");
  return place;
}

static inline __attribute__((always_inline)) void coroutine_unstarted_set_next(void *place) {
  uintptr_t offset;
  __asm__ volatile(
      "movq coroutine_unstarted_next_slot@GOTTPOFF(%%rip), %0\n\t"
      "movq %1, %%fs:(%0)"
      : "=&r"(offset)
      : "r"(place)
      : "memory");
}

#elif defined(__aarch64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_unstarted_next(void) {
  void *place;
  uintptr_t thread;
  __asm__ volatile(
      "mrs %1, tpidr_el0\n\t"
      "adrp %0, :gottprel:coroutine_unstarted_next_slot\n\t"
      "ldr %0, [%0, #:gottprel_lo12:coroutine_unstarted_next_slot]\n\t"
      "ldr %0, [%1, %0]"
      : "=&r"(place), "=&r"(thread)
      :
      : "memory");
  return place;
}

static inline __attribute__((always_inline)) void coroutine_unstarted_set_next(void *place) {
  uintptr_t offset, thread;
  __asm__ volatile(
      "mrs %1, tpidr_el0\n\t"
      "adrp %0, :gottprel:coroutine_unstarted_next_slot\n\t"
      "ldr %0, [%0, #:gottprel_lo12:coroutine_unstarted_next_slot]\n\t"
      "str %2, [%1, %0]"
      : "=&r"(offset), "=&r"(thread)
      : "r"(place)
      : "memory");
}

#else

void *coroutine_unstarted_next(void);
void coroutine_unstarted_set_next(void *place);

#endif
