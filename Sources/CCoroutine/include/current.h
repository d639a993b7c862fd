// SPDX-License-Identifier: Apache-2.0

// The coroutine that runs on this thread: one thread-local pointer.
#pragma once

#include <stdint.h>

#include "thread_slot.h"

// Where on the running stack the caller is, about.
const void *coroutine_frame_address(void);

// The same in one instruction. It stays the same for as long as the caller's frame does, whatever thread that goes on on: so a
// compiler may have it from before a switch.
static inline __attribute__((always_inline)) uintptr_t coroutine_stack_pointer(void) {
#if defined(__x86_64__)
  uintptr_t pointer;
  __asm__("movq %%rsp, %0" : "=r"(pointer));
  return pointer;
#elif defined(__aarch64__)
  uintptr_t pointer;
  __asm__("mov %0, sp" : "=r"(pointer));
  return pointer;
#else
  return (uintptr_t)coroutine_frame_address();
#endif
}

COROUTINE_THREAD_SLOT(coroutine_current_slot);

static inline __attribute__((always_inline)) void *coroutine_current(void) { return coroutine_current_slot_load(); }

static inline __attribute__((always_inline)) void coroutine_set_current(void *current) {
  coroutine_current_slot_store(current);
}

// Between the locking of a lock before it and a load after it: the load sees what others stored before they looked at what
// this thread stored before the lock. On x86-64 the lock's own instruction was a full barrier; only the compiler is held.
// litmus: cancel
static inline __attribute__((always_inline)) void coroutine_store_load_barrier_after_locking(void) {
#if defined(__x86_64__)
  __asm__ volatile("" : : : "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
