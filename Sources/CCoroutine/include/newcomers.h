// Where the calling thread puts coroutines that it creates, so that debuggers find them: one thread-local pointer, null until
// it needs one. What lies there is the affair of Swift's `Newcomers`.
//
// Read from inside coroutines, which may have come from another thread: for the reasons told in current.h the address is
// computed anew at each read, in assembly that the compiler cannot look into.
#pragma once

#include <stdint.h>

extern __thread void *coroutine_newcomers_slot __attribute__((tls_model("initial-exec")));

void coroutine_set_newcomers(void *places);

#if defined(__x86_64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_newcomers(void) {
  void *places;
  __asm__ volatile(
      "movq coroutine_newcomers_slot@GOTTPOFF(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(places)
      :
      : "memory");
  return places;
}

#elif defined(__aarch64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_newcomers(void) {
  void *places;
  uintptr_t thread;
  __asm__ volatile(
      "mrs %1, tpidr_el0\n\t"
      "adrp %0, :gottprel:coroutine_newcomers_slot\n\t"
      "ldr %0, [%0, #:gottprel_lo12:coroutine_newcomers_slot]\n\t"
      "ldr %0, [%1, %0]"
      : "=&r"(places), "=&r"(thread)
      :
      : "memory");
  return places;
}

#else

void *coroutine_newcomers(void);

#endif
