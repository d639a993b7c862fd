// SPDX-License-Identifier: Apache-2.0

// The coroutine that runs on this thread: one thread-local pointer.
//
// A coroutine may continue on another thread. So the address of a thread-local must never be kept across a switch, and
// a compiler is free to keep it: to it, a function stays on its thread. Hence the address is computed inside assembly
// that it cannot look into, at each access, by the initial-exec model (two instructions, one where the linker knows the
// offset). Elsewhere a function that is never inlined does the same.
#pragma once

#include <stdint.h>

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

extern __thread void *coroutine_current_slot __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_current(void) {
  void *current;
  __asm__ volatile(
      "movq coroutine_current_slot@GOTTPOFF(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(current)
      :
      : "memory");
  return current;
}

static inline __attribute__((always_inline)) void coroutine_set_current(void *current) {
  uintptr_t offset;
  __asm__ volatile(
      "movq coroutine_current_slot@GOTTPOFF(%%rip), %0\n\t"
      "movq %1, %%fs:(%0)"
      : "=&r"(offset)
      : "r"(current)
      : "memory");
}

#elif defined(__aarch64__) && defined(__linux__)

static inline __attribute__((always_inline)) void *coroutine_current(void) {
  void *current;
  uintptr_t thread;
  __asm__ volatile(
      "mrs %1, tpidr_el0\n\t"
      "adrp %0, :gottprel:coroutine_current_slot\n\t"
      "ldr %0, [%0, #:gottprel_lo12:coroutine_current_slot]\n\t"
      "ldr %0, [%1, %0]"
      : "=&r"(current), "=&r"(thread)
      :
      : "memory");
  return current;
}

static inline __attribute__((always_inline)) void coroutine_set_current(void *current) {
  uintptr_t offset, thread;
  __asm__ volatile(
      "mrs %1, tpidr_el0\n\t"
      "adrp %0, :gottprel:coroutine_current_slot\n\t"
      "ldr %0, [%0, #:gottprel_lo12:coroutine_current_slot]\n\t"
      "str %2, [%1, %0]"
      : "=&r"(offset), "=&r"(thread)
      : "r"(current)
      : "memory");
}

#else

void *coroutine_current(void);
void coroutine_set_current(void *current);

#endif

// Between the locking of a lock before it and a load after it: the load sees what others stored before they looked at what
// this thread stored before the lock. On x86-64 the lock's own instruction was a full barrier; only the compiler is held.
static inline __attribute__((always_inline)) void coroutine_store_load_barrier_after_locking(void) {
#if defined(__x86_64__)
  __asm__ volatile("" : : : "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
