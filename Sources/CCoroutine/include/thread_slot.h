// SPDX-License-Identifier: Apache-2.0

// Thread-local pointers that are read and written from inside coroutines.
//
// A coroutine may continue on another thread. So the address of a thread-local must never be kept across a switch, and
// a compiler is free to keep it: to it, a function stays on its thread. Hence the address is computed inside assembly
// that it cannot look into, at each access, by the initial-exec model (two instructions, one where the linker knows the
// offset). Elsewhere a function that is never inlined does the same.
//
// COROUTINE_THREAD_SLOT(name), in a header, declares the thread-local `name` and
//     void *name_load(void);
//     void name_store(void *value);
// COROUTINE_THREAD_SLOT_DEFINE(name, first), in one C file, defines it. Each thread has `first` there when it begins.
#pragma once

#include <stdint.h>

#define COROUTINE_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

// `used`: only assembly names the slots, and a linker that optimises the whole program does not look into that.
#define COROUTINE_KEPT_SLOT __attribute__((used, tls_model("initial-exec")))

#if defined(__x86_64__) && defined(__linux__)

#define COROUTINE_THREAD_SLOT(name)                                                             \
  extern __thread void *name COROUTINE_INITIAL_EXEC;                                            \
  static inline __attribute__((always_inline)) void *name##_load(void) {                        \
    void *value;                                                                                \
    /* Where it lies behind the thread pointer, then what lies there. */                        \
    __asm__ volatile("movq " #name "@GOTTPOFF(%%rip), %0\n\tmovq %%fs:(%0), %0"                 \
                     : "=r"(value) : : "memory");                                               \
    return value;                                                                               \
  }                                                                                             \
  static inline __attribute__((always_inline)) void name##_store(void *value) {                 \
    uintptr_t offset;                                                                           \
    __asm__ volatile("movq " #name "@GOTTPOFF(%%rip), %0\n\tmovq %1, %%fs:(%0)"                 \
                     : "=&r"(offset) : "r"(value) : "memory");                                  \
  }                                                                                             \
  static inline __attribute__((always_inline)) void *name##_load(void)

#elif defined(__aarch64__) && defined(__linux__)

#define COROUTINE_THREAD_SLOT(name)                                                             \
  extern __thread void *name COROUTINE_INITIAL_EXEC;                                            \
  static inline __attribute__((always_inline)) void *name##_load(void) {                        \
    void *value;                                                                                \
    uintptr_t thread;                                                                           \
    /* The thread pointer, the page of the offset's entry, the offset, what lies there. */      \
    __asm__ volatile("mrs %1, tpidr_el0\n\tadrp %0, :gottprel:" #name "\n\t"                    \
                     "ldr %0, [%0, #:gottprel_lo12:" #name "]\n\tldr %0, [%1, %0]"              \
                     : "=&r"(value), "=&r"(thread) : : "memory");                               \
    return value;                                                                               \
  }                                                                                             \
  static inline __attribute__((always_inline)) void name##_store(void *value) {                 \
    uintptr_t offset, thread;                                                                   \
    __asm__ volatile("mrs %1, tpidr_el0\n\tadrp %0, :gottprel:" #name "\n\t"                    \
                     "ldr %0, [%0, #:gottprel_lo12:" #name "]\n\tstr %2, [%1, %0]"              \
                     : "=&r"(offset), "=&r"(thread) : "r"(value) : "memory");                   \
  }                                                                                             \
  static inline __attribute__((always_inline)) void *name##_load(void)

#else

#define COROUTINE_THREAD_SLOT(name)                  \
  extern __thread void *name COROUTINE_INITIAL_EXEC; \
  void name##_store(void *value);                    \
  void *name##_load(void)

// The barrier makes the functions impure: a second call after a switch may answer for another thread.
#define COROUTINE_THREAD_SLOT_DEFINE(name, first)        \
  __attribute__((noinline)) void *name##_load(void) {    \
    __asm__ volatile("" ::: "memory");                   \
    return name;                                         \
  }                                                      \
  __attribute__((noinline)) void name##_store(void *value) { \
    __asm__ volatile("" ::: "memory");                   \
    name = value;                                        \
  }                                                      \
  __thread void *name COROUTINE_KEPT_SLOT = first

#endif

#ifndef COROUTINE_THREAD_SLOT_DEFINE
#define COROUTINE_THREAD_SLOT_DEFINE(name, first) __thread void *name COROUTINE_KEPT_SLOT = first
#endif
