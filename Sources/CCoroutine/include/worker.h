// SPDX-License-Identifier: Apache-2.0

// The worker of a thread pool that the calling thread is: one thread-local pointer, null on every other thread.
//
// Read on each wake, from inside coroutines, which may have come from another thread: for the reasons in current.h the
// address is computed anew at each read, in assembly that the compiler cannot look into.
#pragma once

#include <stdint.h>

extern __thread void *coroutine_worker_slot __attribute__((tls_model("initial-exec")));

// By a thread that begins or ceases to be a worker.
void coroutine_set_worker(void *worker);

// Between these two, both by a pool's thread, it does not end unseen: `lost` is called on it should it call pthread_exit.
void coroutine_pool_thread_begins(void (*lost)(void));
void coroutine_pool_thread_returns(void);

#if defined(__x86_64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_worker(void) {
  void *worker;
  __asm__ volatile(
      "movq coroutine_worker_slot@GOTTPOFF(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(worker)
      :
      : "memory");
  return worker;
}

#elif defined(__aarch64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_worker(void) {
  void *worker;
  uintptr_t thread;
  __asm__ volatile(
      "mrs %1, tpidr_el0\n\t"
      "adrp %0, :gottprel:coroutine_worker_slot\n\t"
      "ldr %0, [%0, #:gottprel_lo12:coroutine_worker_slot]\n\t"
      "ldr %0, [%1, %0]"
      : "=&r"(worker), "=&r"(thread)
      :
      : "memory");
  return worker;
}

#else

void *coroutine_worker(void);

#endif
