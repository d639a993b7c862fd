// SPDX-License-Identifier: Apache-2.0

#include "current.h"

#include "speculation.h"

#if defined(__x86_64__) && defined(__linux__)
__thread void *coroutine_speculation_slot __attribute__((tls_model("initial-exec")));
#endif
__thread void *coroutine_current_slot __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) const void *coroutine_frame_address(void) { return __builtin_frame_address(0); }

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))

__attribute__((noinline)) void *coroutine_current(void) {
  __asm__ volatile("" ::: "memory");  // not pure: a second call after a switch may answer for another thread
  return coroutine_current_slot;
}

__attribute__((noinline)) void coroutine_set_current(void *current) {
  __asm__ volatile("" ::: "memory");
  coroutine_current_slot = current;
}

#endif
