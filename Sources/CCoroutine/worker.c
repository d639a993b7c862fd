#include "worker.h"

__thread void *coroutine_worker_slot __attribute__((tls_model("initial-exec")));

void coroutine_set_worker(void *worker) { coroutine_worker_slot = worker; }

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))

__attribute__((noinline)) void *coroutine_worker(void) {
  __asm__ volatile("" ::: "memory");  // not pure: a second call after a switch may answer for another thread
  return coroutine_worker_slot;
}

#endif
